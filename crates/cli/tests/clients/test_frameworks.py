"""Frameworks from PyPI that speak OpenAI's protocols, as they come: a function and a typed result in one loop each."""

import asyncio
from typing import Any
from uuid import uuid4

import agents
import instructor
import openai
from agents import Agent, OpenAIChatCompletionsModel, OpenAIConversationsSession, OpenAIResponsesModel, Runner, function_tool
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel as PydanticResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
import pytest

from houston import KEY, URL

BASE = f"{URL}/compat/openai/v1"
ORDER = '/sim tool=show_map args={"place":"Rome"}'

agents.set_tracing_disabled(True)


class Trip(BaseModel):
    city: str
    days: int


def whose() -> dict[str, str]:
    return {"Houston-User": str(uuid4())}


def asynchronous() -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=BASE, api_key=KEY, default_headers=whose())


@pytest.mark.parametrize("model_of", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
def test_openai_agents(model_of: Any) -> None:
    shown: list[str] = []

    @function_tool
    def show_map(place: str) -> str:
        """Shows a place on the map."""
        shown.append(place)
        return f"the map shows {place}"

    async def use() -> None:
        api = asynchronous()
        model = model_of(model="goal", openai_client=api)
        agent = Agent(name="Guide", instructions="Be brief.", model=model, tools=[show_map], output_type=Trip)
        # Of a session, its client reads no answers again for chat completions.
        session = OpenAIConversationsSession(openai_client=api) if model_of is OpenAIResponsesModel else None
        result = await Runner.run(agent, ORDER, session=session)
        assert isinstance(result.final_output, Trip), result.final_output
        assert shown == ["Rome"]
        if session:
            kinds = [item["type"] for item in await session.get_items()]
            assert kinds == ["message", "function_call", "function_call_output", "message"]

    asyncio.run(use())


def test_openai_agents_remember_a_session() -> None:
    async def use() -> None:
        api = asynchronous()
        agent = Agent(name="Guide", model=OpenAIResponsesModel(model="goal", openai_client=api))
        session = OpenAIConversationsSession(openai_client=api)
        said = ["My name is Ann.", "What is my name?"]
        answers = [(await Runner.run(agent, text, session=session)).final_output for text in said]
        messages = [item for item in await session.get_items() if item["type"] == "message"]
        assert [message["content"][0]["text"] for message in messages] == [said[0], answers[0], said[1], answers[1]]

    asyncio.run(use())


def test_instructor() -> None:
    raw = openai.OpenAI(base_url=BASE, api_key=KEY, default_headers=whose())
    api = instructor.from_openai(raw, mode=instructor.Mode.JSON_SCHEMA)
    trip = api.chat.completions.create(
        model="goal", response_model=Trip, messages=[{"role": "user", "content": "Rome"}], max_retries=0
    )
    assert isinstance(trip, Trip)
    # A function is the result.
    tools = instructor.from_openai(raw, mode=instructor.Mode.TOOLS)
    trip = tools.chat.completions.create(
        model="goal", response_model=Trip, messages=[{"role": "user", "content": "Kyoto"}], max_retries=0
    )
    assert isinstance(trip, Trip)


@pytest.mark.parametrize("responses", [False, True])
def test_langchain(responses: bool) -> None:
    @tool
    def show_map(place: str) -> str:
        """Shows a place on the map."""
        return f"the map shows {place}"

    model = ChatOpenAI(
        model="goal", base_url=BASE, api_key=KEY, default_headers=whose(), use_responses_api=responses, max_retries=0
    )
    typed = model.with_structured_output(Trip, method="json_schema").invoke("Rome")
    assert isinstance(typed, Trip)
    # A function and a result in one loop.
    schema = {"name": "Trip", "strict": True, "schema": Trip.model_json_schema()}
    bound = model.bind_tools([show_map]) if responses else model.bind_tools([show_map], response_format={"type": "json_schema", "json_schema": schema})
    messages: list[Any] = [HumanMessage(ORDER)]
    asked = bound.invoke(messages)
    [call] = asked.tool_calls
    assert (call["name"], call["args"]) == ("show_map", {"place": "Rome"})
    messages += [asked, ToolMessage(show_map.invoke(call["args"]), tool_call_id=call["id"])]
    done = bound.invoke(messages)
    if responses:
        assert done.text
    else:
        assert isinstance(Trip.model_validate_json(done.text), Trip)


@pytest.mark.parametrize("model_of", [OpenAIChatModel, PydanticResponsesModel])
def test_pydantic_ai(model_of: Any) -> None:
    shown: list[str] = []
    provider = OpenAIProvider(openai_client=asynchronous())
    agent = PydanticAgent(model_of("goal", provider=provider), output_type=NativeOutput(Trip), retries=0)

    @agent.tool_plain
    def show_map(place: str) -> str:
        """Shows a place on the map."""
        shown.append(place)
        return f"the map shows {place}"

    result = agent.run_sync(ORDER)
    assert isinstance(result.output, Trip)
    assert shown == ["Rome"]
