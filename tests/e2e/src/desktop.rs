// SPDX-License-Identifier: GPL-3.0-or-later
//! The screen as an assistive technology sees it: look, wait, press, type. Every wait has an end.

pub mod keys;
mod password;

use std::cell::RefCell;
use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::try_join;
use zbus::{Connection, connection};

use crate::search::Search;
use crate::tree::{Item, Tree};
use crate::window;
use tandem_stage::node::{Node, Place, Seen, State, Within};

/// Longest time until something appears on the screen, under emulation on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(300);
/// Longest time of one call to a program; a program that hangs is an error of its own.
const CALL_LIMIT: Duration = Duration::from_secs(120);
/// Roles that a person can press. A mere text of the same name is passed over.
const PRESSABLE: &[&str] = &[
    "push button",
    "button",
    "toggle button",
    "menu item",
    "link",
];
/// Roles of check boxes and of choices.
pub const CHOICES: &[&str] = &["check box", "checkbox", "radio button", "radio"];

/// The program whose windows are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The app.
    App,
    /// The program that asks for the password.
    Authentication,
    /// The desktop's panel.
    Panel,
}

/// A connection to the accessibility bus.
pub struct Desktop {
    bus: Connection,
    /// The app, once it has been found.
    app: RefCell<Option<Tree>>,
    started: Instant,
}

impl Desktop {
    /// Asks the session for the accessibility bus and connects to it.
    pub async fn connect() -> Result<Self> {
        let session = Connection::session()
            .await
            .context("there is no session bus")?;
        let reply = session
            .call_method(
                Some("org.a11y.Bus"),
                "/org/a11y/bus",
                Some("org.a11y.Bus"),
                "GetAddress",
                &(),
            )
            .await
            .context("the session has no accessibility bus")?;
        let address: String = reply.body().deserialize()?;
        let bus = connection::Builder::address(address.as_str())
            .method_timeout(CALL_LIMIT)
            .build()
            .await?;
        Ok(Self {
            bus,
            app: RefCell::default(),
            started: Instant::now(),
        })
    }

    /// Tells the person what happens.
    pub fn step(&self, words: &str) {
        println!("STEP {:5.1} {words}", self.started.elapsed().as_secs_f32());
    }

    /// Asks the host for a picture and waits until it is taken.
    pub fn shot(&self, name: &str) -> Result<()> {
        let done = format!("/run/user/1000/shot-{name}");
        println!("SHOT {name}");
        let end = Instant::now() + LIMIT;
        while !std::path::Path::new(&done).exists() {
            if Instant::now() > end {
                bail!("nobody took the picture {name}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Everything that is on the screen, program by program, newest window first.
    pub async fn look(&self) -> Result<Vec<Seen>> {
        let mut all = Vec::new();
        for part in [Part::App, Part::Authentication, Part::Panel] {
            let keep = |seen: &Seen| {
                all.push(seen.clone());
                false
            };
            self.find(part, |_| true, keep).await?;
        }
        Ok(all)
    }

    /// How many objects of the app have this name and can be used.
    pub async fn count(&self, name: &str) -> Result<usize> {
        let mut count = 0;
        let keep = |seen: &Seen| {
            count += usize::from(seen.is(State::Sensitive));
            false
        };
        self.find(Part::App, |all| named(all, name), keep).await?;
        Ok(count)
    }

    /// The first object on the screen whose name and then whose details match, newest window first. Details cost two
    /// more calls, so that only objects with a matching name are asked for them.
    async fn find(
        &self,
        part: Part,
        named: impl Fn(&str) -> bool,
        mut fits: impl FnMut(&Seen) -> bool,
    ) -> Result<Option<Seen>> {
        match part {
            Part::App => {
                let Some(items) = self.tree().await? else {
                    return Ok(None);
                };
                for item in items.into_iter().filter(|item| named(&item.name)) {
                    // An object that goes away meanwhile is not on the screen.
                    if let Ok(Some(seen)) = self.seen(item).await
                        && fits(&seen)
                    {
                        return Ok(Some(seen));
                    }
                }
            }
            Part::Authentication | Part::Panel => {
                let name = if part == Part::Panel {
                    "*panel*"
                } else {
                    "*polkit*"
                };
                let Some(program) = self.program(name).await? else {
                    return Ok(None);
                };
                let windows = program.children(&self.bus).await.unwrap_or_default();
                for window in windows.into_iter().rev() {
                    let mut search = Search {
                        bus: &self.bus,
                        named: &named,
                        fits: &mut fits,
                    };
                    if let Ok(Some(seen)) = search.below(&window, 0).await {
                        return Ok(Some(seen));
                    }
                }
            }
        }
        Ok(None)
    }

    /// All objects of the app, if it runs.
    async fn tree(&self) -> Result<Option<Vec<Item>>> {
        let tree = match self.app.take() {
            Some(tree) => Some(tree),
            None => self.program("tandem").await?.map(Tree::new),
        };
        let Some(mut tree) = tree else {
            return Ok(None);
        };
        // A program that has ended is searched for again the next time.
        let Ok(items) = tree.read(&self.bus).await else {
            return Ok(None);
        };
        self.app.replace(Some(tree));
        Ok(Some(items))
    }

    /// A program with a window by its name.
    async fn program(&self, name: &str) -> Result<Option<Node>> {
        for program in Node::registry()?.children(&self.bus).await? {
            // A program may end while it is looked at.
            if let Ok((found, _)) = program.name_and_children(&self.bus).await
                && named(&found, name)
            {
                return Ok(Some(program));
            }
        }
        Ok(None)
    }

    /// The details of an object; none if the object is on a page that was never shown.
    async fn seen(&self, item: Item) -> Result<Option<Seen>> {
        let (place, role) = try_join(
            item.node.place(&self.bus, Within::Window),
            item.node.role(&self.bus),
        )
        .await?;
        if item.depth > 0 && (place.width <= 0 || place.height <= 0) {
            return Ok(None);
        }
        Ok(Some(Seen {
            node: item.node,
            depth: item.depth,
            name: item.name,
            role,
            states: item.states,
            place,
            window: item.window,
        }))
    }

    /// What is on the screen, for a person who reads a report of a failure.
    pub async fn describe(&self) -> Result<String> {
        let mut text = String::from("on the screen:");
        for seen in self.look().await? {
            let marks: String = [(State::Checked, " [x]"), (State::Focused, " <focus>")]
                .iter()
                .filter(|(state, _)| seen.is(*state))
                .map(|(_, mark)| *mark)
                .collect();
            let off = if seen.is(State::Sensitive) {
                ""
            } else {
                " (off)"
            };
            write!(
                text,
                "\n{:indent$}{}: {:?}{marks}{off}",
                "",
                seen.role,
                seen.name,
                indent = seen.depth * 2 + 2
            )?;
        }
        Ok(text)
    }

    /// Waits until an object with this name and matching details is on the screen. `*` at either end of the name stands
    /// for any text.
    pub async fn until(
        &self,
        part: Part,
        name: &str,
        limit: Duration,
        fits: impl Fn(&Seen) -> bool,
    ) -> Result<Seen> {
        let end = Instant::now() + limit;
        loop {
            let look = Instant::now();
            if let Some(seen) = self
                .find(part, |all| named(all, name), |seen| fits(seen))
                .await?
            {
                return Ok(seen);
            }
            if Instant::now() > end {
                bail!(
                    "“{name}” did not come as expected within {} s",
                    limit.as_secs()
                );
            }
            // Reading the screen takes the program's time, and the program needs most of its time for the event that is
            // waited for.
            std::thread::sleep((look.elapsed() * 2).max(Duration::from_millis(150)));
        }
    }

    /// Waits until a text or another object of this name is on the screen.
    pub async fn wait(&self, name: &str) -> Result<Seen> {
        self.until(Part::App, name, LIMIT, |_| true).await
    }

    /// Waits until the widget of this name can be pressed, and presses it.
    pub async fn press(&self, name: &str) -> Result<()> {
        let pressable =
            |seen: &Seen| seen.is(State::Sensitive) && PRESSABLE.contains(&seen.role.as_str());
        let seen = self.until(Part::App, name, LIMIT, pressable).await?;
        self.click_on(&seen).await
    }

    /// Presses the first button of this name after the first object that is named `before`, such as the button in a row.
    pub async fn press_after(&self, before: &str, button: &str) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let items = self.tree().await?.unwrap_or_default();
            let after = items
                .into_iter()
                .skip_while(|item| !named(&item.name, before));
            let usable = |item: &Item| item.states & State::Sensitive.bit() != 0;
            let mut found = after.filter(|item| named(&item.name, button) && usable(item));
            if let Some(item) = found.next()
                && let Ok(Some(seen)) = self.seen(item).await
            {
                return self.click_on(&seen).await;
            }
            if Instant::now() > end {
                bail!("there is no “{button}” after “{before}”");
            }
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    /// Clicks on an object of this name.
    pub async fn click(&self, name: &str) -> Result<()> {
        let seen = self.wait(name).await?;
        self.click_on(&seen).await
    }

    /// Ticks a check box or chooses one of several choices, and waits until it is chosen.
    pub async fn choose(&self, name: &str) -> Result<()> {
        let choice =
            |seen: &Seen| seen.is(State::Sensitive) && CHOICES.contains(&seen.role.as_str());
        let seen = self.until(Part::App, name, LIMIT, choice).await?;
        if !seen.is(State::Checked) {
            self.click_on(&seen).await?;
            self.until(Part::App, name, LIMIT, |seen| seen.is(State::Checked))
                .await?;
        }
        Ok(())
    }

    /// The square at the beginning of a long place in the panel, on the screen, as soon as something is painted there.
    pub async fn painted(&self, seen: &Seen) -> Result<Place> {
        let end = Instant::now() + LIMIT;
        loop {
            // GTK 3 tells where things are on the screen.
            let mut place = seen.node.place(&self.bus, Within::Screen).await?;
            place.width = place.width.min(place.height);
            if place.width > 0 && window::is_painted(place)? {
                return Ok(place);
            }
            if Instant::now() > end {
                bail!("nothing is painted at {place:?}");
            }
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    /// Moves the pointer to the middle of a place on the screen and presses a mouse button there.
    pub async fn point(&self, place: Place, button: u8) -> Result<()> {
        let (x, y) = (place.left + place.width / 2, place.top + place.height / 2);
        self.input("GenerateMouseEvent", &(x, y, format!("b{button}c")))
            .await
    }

    async fn click_on(&self, seen: &Seen) -> Result<()> {
        // GTK gives buttons an action. Check boxes and choices have none, so that they are clicked with the mouse.
        if seen.node.act(&self.bus).await? {
            return Ok(());
        }
        // In GTK 4.18, only the button inside a menu's button has the action.
        for inner in seen.node.children(&self.bus).await? {
            if inner.role(&self.bus).await? == "toggle button" && inner.act(&self.bus).await? {
                return Ok(());
            }
        }
        let (x, y) = self.until_mapped(seen)?;
        self.input("GenerateMouseEvent", &(x, y, "b1c")).await
    }

    /// The middle of the object, on the screen; the window manager may need some time to show the object's window.
    fn until_mapped(&self, seen: &Seen) -> Result<(i32, i32)> {
        let end = Instant::now() + LIMIT;
        loop {
            match window::on_screen(&seen.window, seen.place)? {
                Some(place) => return Ok(place),
                None if Instant::now() > end => bail!("there is no window “{}”", seen.window),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Moves the mouse or presses a key, as the desktop lets assistive technologies do.
    async fn input<B>(&self, method: &str, body: &B) -> Result<()>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
    {
        self.bus
            .call_method(
                Some("org.a11y.atspi.Registry"),
                "/org/a11y/atspi/registry/deviceeventcontroller",
                Some("org.a11y.atspi.DeviceEventController"),
                method,
                body,
            )
            .await
            .context("the desktop takes no input")?;
        Ok(())
    }
}

fn named(name: &str, wanted: &str) -> bool {
    match (wanted.strip_prefix('*'), wanted.strip_suffix('*')) {
        (Some(rest), _) => name.contains(rest.trim_end_matches('*')),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == wanted,
    }
}
