//! A page's tree, built with bounded work.
//!
//! What the HTML standard prescribes for broken pages can cost the square of a page's length, in time and in
//! elements. The builder's steps are counted, and a page that goes beyond its budget is read up to there.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, parse_document};
use markup5ever_rcdom::{Node, RcDom};
use rookery_messages::tool::head;

/// Most elements of a tree.
const MAX_ELEMENTS: usize = 50_000;
/// Most looks at open elements while it is built.
const MAX_LOOKS: usize = 10_000_000;
/// How much is read between two looks at the counts.
const PIECE_BYTES: usize = 256;

type Handle = Rc<Node>;

/// The tree, and whether the page went on.
pub(super) fn build(html: &str) -> (Handle, bool) {
    let mut parser = parse_document(Counted::default(), ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        let piece = head(rest, PIECE_BYTES);
        parser.process(StrTendril::from(piece));
        rest = &rest[piece.len()..];
        let counted = &parser.tokenizer.sink.sink;
        if counted.elements.get() > MAX_ELEMENTS || counted.looks.get() > MAX_LOOKS {
            break;
        }
    }
    (parser.finish().document, !rest.is_empty())
}

/// The tree in the making.
#[derive(Default)]
struct Counted {
    dom: RcDom,
    elements: Cell<usize>,
    looks: Cell<usize>,
}

impl Counted {
    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
    }
}

impl TreeSink for Counted {
    type Handle = Handle;
    type Output = RcDom;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> RcDom {
        self.dom
    }

    /// Pages are full of them, and nobody reads them.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.look();
        self.dom.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.elements.set(self.elements.get() + 1);
        self.dom.create_element(name, attrs, flags)
    }

    fn create_comment(&self, text: StrTendril) -> Handle {
        self.dom.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Handle {
        self.dom.create_pi(target, data)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.dom.append(parent, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        prev_element: &Handle,
        child: NodeOrText<Handle>,
    ) {
        self.dom.append_based_on_parent_node(element, prev_element, child);
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, x: &Handle, y: &Handle) -> bool {
        self.look();
        self.dom.same_node(x, y)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, new_node: NodeOrText<Handle>) {
        self.dom.append_before_sibling(sibling, new_node);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attrs: Vec<Attribute>) {
        self.dom.add_attrs_if_missing(target, attrs);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        self.dom.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, target: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(target)
    }

    /// A shadow tree would be seen; left where they stand, templates are not.
    fn allow_declarative_shadow_roots(&self, _: &Handle) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_would_cost_the_square_of_its_length_is_read_in_part() {
        let formats: String = (0..1_000).map(|n| format!("<b id={n}>")).collect();
        for page in [
            "<div>".repeat(200_000),
            "<table><tr><td>".repeat(50_000),
            "<a href=x>".repeat(200_000),
            format!("<p>{formats}{}", "<p>x".repeat(100_000)),
            format!("{}{}", "<font size=1><i>".repeat(20_000), "</div></p>x".repeat(20_000)),
            "<svg><desc>".repeat(50_000),
        ] {
            let (_, cut) = build(&page);
            assert!(cut, "{}", head(&page, 40));
        }
    }

    #[test]
    fn an_ordinary_page_is_read_whole_though_it_is_long() {
        let rows =
            "<tr><td>one</td><td><a href='/x'>two</a> &amp; <b>ü</b></td></tr>".repeat(5_000);
        let (_, cut) = build(&format!("<html><body><table>{rows}</table></body></html>"));
        assert!(!cut);
    }
}
