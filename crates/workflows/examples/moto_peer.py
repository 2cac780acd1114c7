"""The same chains of tasks in moto (PyPI: moto[stepfunctions], boto3), for comparison with the example `workflow_bench`.

    python3 -m venv /tmp/moto && /tmp/moto/bin/pip install 'moto[stepfunctions]' boto3
    /tmp/moto/bin/python crates/workflows/examples/moto_peer.py [RUNS]

moto runs state machines in its own process and in memory: nothing is durable, and no server is asked. It is measured
with tasks (they ask moto's own SQS, in process, for the address of a queue: its Lambda needs Docker) and with Pass states,
the least that it can do; ours are durable tasks.
"""
import itertools
import json
import sys
import time

import boto3
from moto import mock_aws

ROLE = "arn:aws:iam::123456789012:role/r"


TASK = {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:sqs:getQueueUrl", "Parameters": {"QueueName": "q"}}
PASS = {"Type": "Pass"}


def chain(kind, steps):
    states = {}
    for at in range(1, steps + 1):
        state = dict(kind)
        state.update({"End": True} if at == steps else {"Next": f"s{at + 1}"})
        states[f"s{at}"] = state
    return json.dumps({"StartAt": "s1", "States": states})


def until_over(client, runs):
    for run in runs:
        while (told := client.describe_execution(executionArn=run))["status"] == "RUNNING":
            time.sleep(0.001)
        if told["status"] != "SUCCEEDED":
            sys.exit(f"the run ended as {told['status']}: {told.get('cause')}")


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        boto3.client("sqs", "us-east-1").create_queue(QueueName="q")
        client = boto3.client("stepfunctions", "us-east-1")
        names = (f"run-{at}" for at in itertools.count())

        def create(kind, steps):
            name = f"{kind['Type']}-{steps}"
            made = client.create_state_machine(name=name, definition=chain(kind, steps), roleArn=ROLE)
            return made["stateMachineArn"]

        def start(machine):
            return client.start_execution(stateMachineArn=machine, name=next(names), input="{}")["executionArn"]

        for kind in (TASK, PASS):
            five, fifty = create(kind, 5), create(kind, 50)
            until_over(client, [start(five)])
            began = time.monotonic()
            until_over(client, [start(fifty)])
            print(f"moto, {kind['Type']}: step (chain of 50): {(time.monotonic() - began) / 50 * 1000:.2f} ms")
            began = time.monotonic()
            until_over(client, [start(five) for _ in range(count)])
            took = time.monotonic() - began
            print(f"moto, {kind['Type']}: {count} runs of 5 steps: {took:.2f} s, {count * 5 / took:.0f} steps/s")


main()
