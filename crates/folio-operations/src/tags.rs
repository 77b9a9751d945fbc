//! Operations on tags.

use folio_resources::{Tag, TagChange, TagFilter, check_color, check_description};
use folio_types::access::Scope;
use folio_types::{Etag, Result, TagId, limits};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::grid::{Column, Grid, GridRows};
use crate::list::{ListPage, ListRequest};
use crate::operation::{Operation, delete_operation, get_operation};

service! {
    "TagService", Some(Scope::Definitions) =>
    CreateTag, GetTag, ListTags, UpdateTag, DeleteTag
}

const COLOR: &str = "tag.color";
const DESCRIPTION: &str = "tag.description";

/// Creates a tag. Errors: `NAME_TAKEN`, without regard to case.
#[derive(Debug, Clone, Serialize)]
pub struct CreateTag {
    pub name: String,
    /// `#rrggbb`. Empty: none.
    pub color: String,
    /// Empty: none.
    pub description: String,
}

impl Operation for CreateTag {
    const DECLARATION: Declaration = SERVICE.change("CreateTag");
    type Output = Tag;

    async fn run(self, context: &Context) -> Result<Tag> {
        folio_resources::fields::check_name("tag.name", &self.name)?;
        let color = check_color(COLOR, &self.color)?;
        let description = check_description(DESCRIPTION, &self.description)?;
        context.create(TagChange::Create { name: self.name, color, description }).await
    }
}

get_operation! {
    GetTag { tag_id: TagId } -> Tag
}

/// The columns of the grid of [`ListTags`].
pub const COLUMNS: &[Column] = <Tag as GridRows>::COLUMNS;

/// Lists tags. Filter: `name:` a part of the name, `name=` the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListTags {
    pub list: ListRequest,
}

impl Operation for ListTags {
    const DECLARATION: Declaration = SERVICE.read("ListTags");
    type Output = ListPage<Tag>;

    async fn run(self, context: &Context) -> Result<ListPage<Tag>> {
        let (name_search, name) = filter::name_conditions(&self.list.filter)?;
        let filter = TagFilter { name_search: Grid::name_search(name_search, self.list.grid.as_ref()), name };
        context.list_with_grid(&self.list, &filter, limits::PAGE_SIZE_MAX).await
    }
}

/// Changes name, color or description of a tag. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateTag {
    pub tag_id: TagId,
    pub name: Option<String>,
    /// Empty: removes the color.
    pub color: Option<String>,
    /// Empty: removes the description.
    pub description: Option<String>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateTag {
    const DECLARATION: Declaration = SERVICE.change("UpdateTag");
    type Output = Tag;

    async fn run(self, context: &Context) -> Result<Tag> {
        if let Some(name) = &self.name {
            folio_resources::fields::check_name("tag.name", name)?;
        }
        let change = TagChange::Update {
            color: self.color.map(|text| check_color(COLOR, &text)).transpose()?,
            description: self.description.map(|text| check_description(DESCRIPTION, &text)).transpose()?,
            name: self.name,
        };
        context.update(&self.tag_id, self.etag, change).await
    }
}

delete_operation! {
    /// Deletes a tag. Error: `IN_USE` while documents or prompts have the tag.
    DeleteTag { tag_id: TagId } of Tag
}
