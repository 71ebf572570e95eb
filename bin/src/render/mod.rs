//! What people read on a terminal: texts made safe, tables, the tree, lists. All pure.

mod escape;
pub mod lists;
pub mod memory;
mod table;
pub mod top;
pub mod tree;

pub use escape::{json_text, prose, strict};
pub use table::table;
