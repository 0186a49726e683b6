//! The endpoints of a [`KnowledgeResource`].

use axum::routing::get;

#[cfg(test)]
use super::documented;
use super::{KnowledgeResource, Owner, operations};
use crate::endpoint::Endpoint;
use crate::handler::erase;

/// `GET` and `POST` of a resource's collection.
pub(crate) fn collection<N: KnowledgeResource>() -> Endpoint {
    let path = N::Owner::collection(N::COLLECTION);
    #[cfg(test)]
    let documented = documented::collection::<N>(&path);
    Endpoint::new(
        path,
        get(erase(operations::list::<N>)).post(erase(operations::create::<N>)),
        #[cfg(test)]
        documented,
    )
}

/// `GET`, `PATCH` and `DELETE` of one item of a resource.
pub(crate) fn item<N: KnowledgeResource>() -> Endpoint {
    let path = format!("/v1/{}/{{id}}", N::PATH);
    #[cfg(test)]
    let documented = documented::item::<N>(&path);
    Endpoint::new(
        path,
        get(erase(operations::get::<N>))
            .patch(erase(operations::change::<N>))
            .delete(erase(operations::delete::<N>)),
        #[cfg(test)]
        documented,
    )
}
