// SPDX-License-Identifier: GPL-3.0-or-later
//! The typed D-Bus contract between the helper and everyone who talks to it.
