//! The screen of a worker in its provider's own terminal interface, for whoever wants to see it.
//!
//! The host of the turn keeps what its terminal shows and draws it for every viewer anew: a viewer that comes late
//! sees all of it, a slow one skips what it could not take, and one that dies or hangs costs nobody anything. What a
//! worker writes reaches no other terminal but as letters and colours: no question that a terminal would answer, no
//! title, nothing for its clipboard.
//!
//! Nothing is concluded from a screen, and nothing is ever typed but by a person who asked for that.
//!
//! Limits: what lies above the top of the screen is gone; of the styles of letters, what the emulator does not know
//! (underlines of other kinds, links) is not shown.

pub mod frame;
pub mod picture;
pub mod place;
pub mod viewers;
