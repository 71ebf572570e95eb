//! Rookery's actor tree: strategies, restarts, ordered shutdown, inspection, health, admin routes.

pub mod admin;
pub mod health;
pub mod inspect;
pub mod root;
pub mod shutdown;
pub mod strategy;
pub mod supervisor;

#[cfg(test)]
mod testing;
