# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest as its user: starts Xfce's panel with nothing but the place for indicators in it, and our indicator.
set -eu
channel=$HOME/.config/xfce4/xfconf/xfce-perchannel-xml
mkdir -p "$channel"
cat >"$channel/xfce4-panel.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-panel" version="1.0">
  <property name="configver" type="int" value="2"/>
  <property name="panels" type="array">
    <value type="int" value="1"/>
    <property name="panel-1" type="empty">
      <property name="position" type="string" value="p=8;x=0;y=0"/>
      <property name="length" type="double" value="100"/>
      <property name="position-locked" type="bool" value="true"/>
      <property name="size" type="uint" value="36"/>
      <property name="plugin-ids" type="array"><value type="int" value="1"/></property>
    </property>
  </property>
  <property name="plugins" type="empty">
    <property name="plugin-1" type="string" value="systray"/>
  </property>
</channel>
XML
systemd-run --user --quiet --collect --unit=panel xfce4-panel --disable-wm-check
systemd-run --user --quiet --collect --unit=tandem-tray tandem-tray
