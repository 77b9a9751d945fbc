//! Whole turns through the actors, on the embedded store, with the real tools and a scripted model.

mod approve;
mod audit;
mod beginning;
mod cancel;
mod chat;
mod crash;
mod faults;
mod flaky;
mod lifecycle;
mod ownership;
mod queued;
mod sandbox;
mod script;
mod several;
mod share;
mod stand_in;
mod storm;
mod threads;
mod watch;
