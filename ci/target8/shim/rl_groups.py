"""What became of each group of rollouts: a line of JSON in $PARAVT_GROUPS with its calls, executed and failed, and the
exception that ended it, if any."""

import contextvars
import json
import os

calls = contextvars.ContextVar("calls")


def noted(workflow):
    path = os.environ.get("PARAVT_GROUPS")
    if not path:
        return workflow

    class Noted(workflow):
        async def arun_episode(self, engine, data):
            # One object for all tasks that the group starts.
            calls.set(found := {"executed": 0, "failed": 0})
            error = None
            try:
                return await super().arun_episode(engine, data)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
                raise
            finally:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(json.dumps({**found, "error": error}) + "\n")

    return Noted


def called(is_executed):
    if found := calls.get(None):
        found["executed" if is_executed else "failed"] += 1
