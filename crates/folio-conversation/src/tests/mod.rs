//! Whole turns through the actors, on the embedded store, with the real tools and a scripted model.

mod approve;
mod audit;
mod cancel;
mod chat;
mod crash;
mod fallback;
mod faults;
mod first_message;
mod flaky;
mod lifecycle;
mod ownership;
mod publish;
mod queued;
mod sandbox;
mod script;
mod several;
mod storm;
mod threads;
mod watch;
