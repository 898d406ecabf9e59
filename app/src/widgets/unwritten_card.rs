// SPDX-License-Identifier: GPL-3.0-or-later
//! The data that is not yet on the hard disk: how much it is, how long writing it back takes, and the button that
//! flushes.

use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};

use crate::display::UnwrittenWords;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "unwritten_card.ui")]
    pub struct UnwrittenCard {
        #[template_child]
        pub amount: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub flush: TemplateChild<gtk::Button>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for UnwrittenCard {
        const NAME: &'static str = "TandemUnwrittenCard";
        type Type = super::UnwrittenCard;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for UnwrittenCard {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("flush").build()])
        }

        fn constructed(&self) {
            self.parent_constructed();
            self.flush.connect_clicked(clone!(
                #[weak(rename_to = card)]
                self.obj(),
                move |_| card.emit_by_name::<()>("flush", &[])
            ));
        }
    }

    impl WidgetImpl for UnwrittenCard {}
    impl BinImpl for UnwrittenCard {}
}

glib::wrapper! {
    /// A widget that shows [`UnwrittenWords`]; emits `flush` when the person presses the button.
    pub struct UnwrittenCard(ObjectSubclass<imp::UnwrittenCard>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl UnwrittenCard {
    /// Shows these words, or nothing. `can_flush` shows the button; `busy` disables it, so that it is not pressed
    /// twice.
    pub fn show(&self, words: Option<&UnwrittenWords>, can_flush: bool, busy: bool) {
        let imp = self.imp();
        self.set_visible(words.is_some());
        let Some(words) = words else { return };
        imp.amount.set_title(&words.title);
        imp.amount.set_subtitle(&words.time);
        let (icon, class) = if words.waits {
            ("drive-harddisk-solidstate-symbolic", "dirty-text")
        } else {
            ("tandem-done-symbolic", "success")
        };
        imp.icon.set_icon_name(Some(icon));
        imp.icon.set_css_classes(&[class]);
        imp.flush.set_visible(words.waits && can_flush);
        imp.flush.set_sensitive(!busy);
    }

    /// Calls `then` when the person asks for a flush.
    pub fn connect_flush(&self, then: impl Fn() + 'static) {
        self.connect_closure("flush", false, glib::closure_local!(move |_: &Self| then()));
    }
}
