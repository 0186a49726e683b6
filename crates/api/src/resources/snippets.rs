//! `/v1/users/{id}/snippets`: code that agents keep for a user. Agents write it; people read and delete it here.

use houston_domain::id::UserId;
use houston_domain::snippet::{self, SnippetEntry};

use crate::request::agentable_path::path_value;
use crate::request::prelude::*;

endpoints! {
    get "/v1/users/{id}/snippets" for USER => list,
    "list_snippets_of_user" in "snippets": "List the code that agents keep for a user, in the order of its names.",
    params(Paged),
    200 "A page of snippets." [Page<SnippetEntry>];

    get "/v1/users/{id}/snippets/{name}" for USER =>
        async |ctx: Ctx, Id(user): Id<UserId>, SnippetName(name): SnippetName|
            found(ctx.store().snippet(user, &name).await),
    "get_snippet" in "snippets": "Get a snippet with its code.",
    params(("name" = String, Path, description = "Name of the snippet.", example = "monthly_report")),
    200 "The snippet." [houston_domain::snippet::Snippet];

    delete "/v1/users/{id}/snippets/{name}" for USER =>
        async |ctx: Ctx, Id(user): Id<UserId>, SnippetName(name): SnippetName|
            gone(ctx.store().delete_snippet(user, &name).await),
    "delete_snippet_of_user" in "snippets": "Delete a snippet, and the tool that it is.",
    params(("name" = String, Path, description = "Name of the snippet.", example = "monthly_report")),
    204 "The snippet is deleted.";
}

path_value! {
    /// Extracts `name` from the path of the request. No snippet has a name that is not one of a snippet.
    SnippetName(String): "name" or "snippet", |name| snippet::check_name(&name).is_ok().then_some(name)
}

async fn list(ctx: Ctx, Id(user): Id<UserId>, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, after) = (query.limit()?, query.text(List::Snippets)?);
    ctx.store().user(user).await?;
    let snippets = ctx.store().snippets(user, after, rows(limit)).await?;
    let position = |row: &SnippetEntry| HexText(row.name.clone());
    Ok(Json(Page::of(List::Snippets, limit, snippets, position, |row| row)))
}
