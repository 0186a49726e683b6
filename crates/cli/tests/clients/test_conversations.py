"""Conversations of OpenAI's client for Python, and of the sessions of openai-agents, as they come."""

import asyncio
from uuid import uuid4

import openai
import pytest
from agents import OpenAIConversationsSession

from houston import KEY, URL, ask

BASE = f"{URL}/compat/openai/v1"


def client(**options: object) -> openai.OpenAI:
    return openai.OpenAI(base_url=BASE, api_key=KEY, default_headers={"Houston-User": str(uuid4())}, **options)


def said(text: str, role: str = "user") -> dict:
    return {"type": "message", "role": role, "content": text}


def texts(items: object) -> list[tuple[str, str]]:
    return [(item.role, item.content[0].text) for item in items]


def test_a_conversation_needs_no_model_and_keeps_what_is_said_of_it() -> None:
    api = client()
    made = api.conversations.create(metadata={"topic": "Rome"}, items=[said("My name is Ann."), said("Hello Ann", "assistant")])
    assert (made.id.startswith("conv_goal_"), made.metadata) == (True, {"topic": "Rome"})
    assert api.conversations.retrieve(made.id).metadata == {"topic": "Rome"}
    assert api.conversations.update(made.id, metadata={"topic": "Paris"}).metadata == {"topic": "Paris"}
    before = [("user", "My name is Ann."), ("assistant", "Hello Ann")]
    assert texts(api.conversations.items.list(made.id, order="asc")) == before
    answer = api.responses.create(model="goal", conversation=made.id, input="and now?")
    assert answer.conversation.id == made.id
    after = texts(api.conversations.items.list(made.id, order="asc", limit=1))
    assert after == [*before, ("user", "and now?"), ("assistant", answer.output_text)]
    # The agent reads what was added.
    history = ask("GET", f"/v1/goals/{made.id.removeprefix('conv_')}/history")["data"]
    assert "My name is Ann." in str(history) and "Hello Ann" in str(history)
    api.conversations.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        api.conversations.retrieve(made.id)


def test_a_user_is_named_as_in_responses() -> None:
    api = openai.OpenAI(base_url=BASE, api_key=KEY)
    for name in ("safety_identifier", "user"):
        made = api.conversations.create(extra_body={name: str(uuid4())})
        assert made.id.startswith("conv_goal_")
    with pytest.raises(openai.BadRequestError) as refused:
        api.conversations.create()
    assert refused.value.param == "safety_identifier"
    with pytest.raises(openai.BadRequestError, match="at most 16 pairs"):
        api.conversations.create(metadata={f"n{n}": "" for n in range(17)}, extra_body={"user": "ann"})


def test_items_are_added_listed_and_taken_out() -> None:
    api = client()
    made = api.conversations.create()
    call = {"type": "function_call", "call_id": "call_1", "name": "show_map", "arguments": '{"place": "Rome"}'}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "Rome is shown"}
    added = api.conversations.items.create(made.id, items=[said("Show Rome"), call, output, said("Done", "assistant")])
    assert [item.type for item in added.data] == ["message", "function_call", "function_call_output", "message"]
    items = api.conversations.items
    listed = list(items.list(made.id, order="asc", limit=2))
    assert [item.id for item in listed] == [item.id for item in added.data]
    assert (listed[1].name, listed[1].arguments, listed[2].output) == ("show_map", call["arguments"], "Rome is shown")
    assert [item.id for item in items.list(made.id)] == [item.id for item in added.data][::-1]
    assert [item.id for item in items.list(made.id, order="asc", after=listed[1].id)] == [item.id for item in listed[2:]]
    found = items.retrieve(listed[1].id, conversation_id=made.id)
    assert found.call_id == "call_1"
    page = items.with_raw_response.list(made.id, include=["message.output_text.logprobs", "reasoning.encrypted_content"])
    assert page.headers["houston-ignored-parameters"] == "include"
    items.delete(listed[3].id, conversation_id=made.id)
    with pytest.raises(openai.NotFoundError):
        items.retrieve(listed[3].id, conversation_id=made.id)
    with pytest.raises(openai.NotFoundError):
        items.delete(listed[3].id, conversation_id=made.id)
    assert [item.id for item in items.list(made.id, order="asc")] == [item.id for item in listed[:3]]
    answer = api.responses.create(model="goal", conversation=made.id, input="thanks")
    history = str(ask("GET", f"/v1/goals/{made.id.removeprefix('conv_')}/history")["data"])
    assert "Rome is shown" in history
    with pytest.raises(openai.BadRequestError, match="cannot be taken out"):
        items.delete(answer.output[-1].id, conversation_id=made.id)
    with pytest.raises(openai.BadRequestError, match="king"):
        items.create(made.id, items=[said("x", "king")])
    with pytest.raises(openai.BadRequestError) as refused:
        items.list(made.id, after="msg_nothing")
    assert refused.value.param == "after"


def test_an_agent_answers_in_a_conversation_that_was_made_without_one() -> None:
    name = f"travel-{uuid4().hex}"
    ask("POST", "/v1/agents", {"name": name, "kind": "goal", "role": "You plan travels."})
    api = client()
    made = api.conversations.create(items=[said("Hello")])
    api.responses.create(model=f"agent/{name}", conversation=made.id, input="Where to?")
    goal = ask("GET", f"/v1/goals/{made.id.removeprefix('conv_')}")
    assert goal["agent_id"]


def test_a_session_of_openai_agents() -> None:
    async def use() -> None:
        api = openai.AsyncOpenAI(base_url=BASE, api_key=KEY, default_headers={"Houston-User": str(uuid4())})
        session = OpenAIConversationsSession(openai_client=api)
        assert await session.get_items() == []
        first = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        await session.add_items(first)
        await session.add_items([{"role": "user", "content": "three"}])
        assert [item["content"][0]["text"] for item in await session.get_items()] == ["one", "two", "three"]
        assert [item["content"][0]["text"] for item in await session.get_items(limit=2)] == ["two", "three"]
        popped = await session.pop_item()
        assert popped["content"][0]["text"] == "three"
        assert len(await session.get_items()) == 2
        await session.clear_session()
        assert await session.get_items() == []

    asyncio.run(use())
