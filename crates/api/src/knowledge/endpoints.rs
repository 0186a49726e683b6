//! The endpoints of a [`KnowledgeResource`].

use std::borrow::Cow;

use axum::routing::get;

#[cfg(feature = "openapi")]
use super::documented;
use super::{KnowledgeResource, Owner, operations};
use crate::endpoint::Endpoint;
use crate::handler::erase;

/// `GET` and `POST` of a resource's collection.
pub(crate) fn collection<N: KnowledgeResource>() -> Endpoint {
    Endpoint {
        path: Cow::Owned(N::Owner::collection(N::COLLECTION)),
        handlers: || get(erase(operations::list::<N>)).post(erase(operations::create::<N>)),
        #[cfg(feature = "openapi")]
        describe: documented::collection::<N>,
    }
}

/// `GET`, `PATCH` and `DELETE` of one item of a resource.
pub(crate) fn item<N: KnowledgeResource>() -> Endpoint {
    Endpoint {
        path: Cow::Owned(format!("/v1/{}/{{id}}", N::PATH)),
        handlers: || {
            get(erase(operations::get::<N>))
                .patch(erase(operations::change::<N>))
                .delete(erase(operations::delete::<N>))
        },
        #[cfg(feature = "openapi")]
        describe: documented::item::<N>,
    }
}
