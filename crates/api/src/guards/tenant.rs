//! `/v1/guards`: the guards of the tenant.

use super::guards;

guards! {
    path: "/v1/guards",
    "get_guards_of_tenant": "Get the guards of the tenant; `{}`: there are none.",
    "set_guards_of_tenant": "Replace the guards of the tenant; `{}` removes them. They can only tighten what the layers above allow.",
    params: (),
    owner: |app, caller| app.store(caller).guard_owner(),
}
