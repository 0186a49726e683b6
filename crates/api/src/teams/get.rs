//! `GET /v1/teams/{id}`: one team.

use super::response;
use crate::reads::get_by_id;

get_by_id! {
    path: "/v1/teams/{id}", tag: "teams", operation: "get_team",
    summary: "Get a team.",
    id: TeamId, "Id of the team.",
    method: team, body: houston_protocol::team::TeamResponse, "The team.",
}
