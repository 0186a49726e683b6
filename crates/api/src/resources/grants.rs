//! Grants: the lasting yes of people for tools. Given with the answer to an approval (`remember`); listed and revoked here.

use houston_domain::id::{GrantId, UserId};

use crate::request::prelude::*;

endpoints! {
    get "/v1/users/{id}/grants" for USER => list,
    "list_grants" in "guards": "List what a user has allowed for good, newest first.",
    params(Paged),
    200 "A page of grants." [Page<houston_domain::guard::GivenGrant>];

    // Calls that it covered are asked about again.
    delete "/v1/grants/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<GrantId>| gone(ctx.store().revoke_grant(id).await),
    "revoke_grant" in "guards": "Revoke a lasting yes.",
    204 "The grant is revoked.";
}

async fn list(ctx: Ctx, Id(user): Id<UserId>, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(List::Grants)?.map(GrantId));
    ctx.store().user(user).await?;
    let grants = ctx.store().grants(user, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Grants, limit, grants, |row| row.id.0.as_u128(), |row| row)))
}
