"""The agent of `cargo xtask bench --peers` on DBOS: a workflow of one step, which asks the model and reads its stream.

Arguments: the port to listen on, the URL of the database, the URL of the model.
"""

import http.client
import json
import sys
import threading
import urllib.parse

import uvicorn
from dbos import DBOS
from fastapi import FastAPI

PORT, DATABASE, MODEL = sys.argv[1:]
MODEL = urllib.parse.urlsplit(MODEL)

app = FastAPI()
DBOS(config={"name": "peer", "system_database_url": DATABASE, "log_level": "WARNING"})
threads = threading.local()


@DBOS.step()
def ask(question):
    if not hasattr(threads, "connection"):
        threads.connection = http.client.HTTPConnection(MODEL.netloc)
    body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": question}]}
    threads.connection.request(
        "POST", f"{MODEL.path}/chat/completions", json.dumps(body), {"content-type": "application/json"}
    )
    answer = ""
    for line in threads.connection.getresponse():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                answer += choice["delta"].get("content") or ""
    return answer


@DBOS.workflow()
def agent(question):
    return ask(question)


@app.get("/ok")
def ready():
    return {}


@app.post("/runs")
def run(body: dict):
    return {"answer": agent(body["content"])}


if __name__ == "__main__":
    DBOS.launch()
    uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="warning")
