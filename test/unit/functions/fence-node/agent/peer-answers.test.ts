import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { AgentLease, ApiAnswer } from "../../../../../functions/fence-node/agent/outside.ts";
import { mostReadsPerSecond, PeerAnswers } from "../../../../../functions/fence-node/agent/peer-answers.ts";
import { armed, bootId, fenceId, key, otherBootId } from "./world.ts";

const freshMs = 20_000;
const renewTimeoutMs = 3_000;
const leaseWith = (annotations: Readonly<Record<string, string>>): ApiAnswer<AgentLease> => ({
  status: 200,
  message: "",
  value: { uid: "u", resourceVersion: "7", annotations },
});
const alive = leaseWith({ [key("agent-boot-id")]: bootId });
const fenced = leaseWith({ [key("agent-boot-id")]: bootId, [key("fence-armed")]: armed });
const refused = (status: number) => ({ status, message: "refused", value: undefined });

/** An API server whose answers wait until the test gives them. */
class Reads {
  nowMs = 100_000;
  lastSuccessMs: number | undefined = 100_000;
  readonly sent: { readonly read: string; readonly timeoutMs: number }[] = [];
  readonly answers = new PeerAnswers({
    clock: { nowMs: () => this.nowMs },
    api: {
      readLeaseOf: (node, timeoutMs) => this.#send(`lease ${node}`, timeoutMs, this.#leases),
      readTaintOf: (node, timeoutMs) => this.#send(`taint ${node}`, timeoutMs, this.#taints),
    },
    ...{ freshMs: () => freshMs, renewTimeoutMs, startedMs: 1_000, lastSuccessMs: () => this.lastSuccessMs },
  });
  readonly #leases: ((answer: ApiAnswer<AgentLease>) => void)[] = [];
  readonly #taints: ((answer: ApiAnswer<boolean>) => void)[] = [];

  get names(): readonly string[] {
    return this.sent.map(({ read }) => read);
  }

  /** Answers the oldest read of a Lease, and waits until its questions have gone on. */
  async giveLease(answer: ApiAnswer<AgentLease>): Promise<void> {
    this.#leases.shift()?.(answer);
    await new Promise((resolve) => setImmediate(resolve));
  }

  async giveTaint(value: boolean | undefined): Promise<void> {
    this.#taints.shift()?.(value === undefined ? refused(0) : { status: 200, message: "", value });
    await new Promise((resolve) => setImmediate(resolve));
  }

  #send<T>(read: string, timeoutMs: number, waiting: ((answer: ApiAnswer<T>) => void)[]): Promise<ApiAnswer<T>> {
    this.sent.push({ read, timeoutMs });
    return new Promise((resolve) => waiting.push(resolve));
  }
}

suite("what an agent answers its peers", () => {
  test("alive rests on one read of the Lease, which has the limit of a renewal", async () => {
    const reads = new Reads();
    const answer = reads.answers.answer("node-1", bootId);
    assert.deepEqual(reads.sent, [{ read: "lease node-1", timeoutMs: renewTimeoutMs }]);
    await reads.giveLease(alive);
    assert.deepEqual(await answer, { verdict: "alive" });
    assert.equal(reads.sent.length, 1);
  });

  test("stop rests on the Lease and then on the taint of the Node, and names the fence", async () => {
    const reads = new Reads();
    const answer = reads.answers.answer("node-1", bootId);
    await reads.giveLease(fenced);
    assert.deepEqual(reads.sent.slice(1), [{ read: "taint node-1", timeoutMs: renewTimeoutMs }]);
    await reads.giveTaint(true);
    assert.deepEqual(await answer, { verdict: "stop", fenceId });
  });

  test("a fence without the taint, or with a Node that is not read, has no effect", async () => {
    for (const taint of [false, undefined]) {
      const reads = new Reads();
      const answer = reads.answers.answer("node-1", bootId);
      await reads.giveLease(fenced);
      await reads.giveTaint(taint);
      assert.deepEqual(await answer, { verdict: "unknown" });
    }
  });

  test("a Lease that is missing, not read, or of another boot has no effect", async () => {
    for (const lease of [refused(404), refused(0), refused(503), leaseWith({}), fenced]) {
      const reads = new Reads();
      const answer = reads.answers.answer("node-1", otherBootId);
      await reads.giveLease(lease);
      assert.deepEqual(await answer, { verdict: "unknown" });
      assert.deepEqual(reads.names, ["lease node-1"]);
    }
  });

  test("an agent that is out of contact answers no-api without a read", async () => {
    const reads = new Reads();
    reads.nowMs += freshMs + 1;
    assert.deepEqual(await reads.answers.answer("node-1", bootId), { verdict: "no-api" });
    assert.deepEqual(reads.sent, []);
  });

  test("the read decides, where the agent was in contact when the question came", async () => {
    const reads = new Reads();
    reads.nowMs += freshMs;
    const answer = reads.answers.answer("node-1", bootId);
    reads.nowMs += renewTimeoutMs;
    await reads.giveLease(fenced);
    await reads.giveTaint(true);
    assert.deepEqual(await answer, { verdict: "stop", fenceId });
  });
});

suite("reads that peers share", () => {
  test("a question gets no answer of a read that was sent before it came", async () => {
    const reads = new Reads();
    const first = reads.answers.answer("node-1", bootId);
    const second = reads.answers.answer("node-1", bootId);
    await reads.giveLease(alive);
    assert.deepEqual(await first, { verdict: "alive" });
    assert.deepEqual(reads.names, ["lease node-1", "lease node-1"]);
    await reads.giveLease(fenced);
    await reads.giveTaint(true);
    assert.deepEqual(await second, { verdict: "stop", fenceId });
  });

  test("all questions that come before a read is sent share it, each for its own boot", async () => {
    const reads = new Reads();
    void reads.answers.answer("node-1", bootId);
    const boots = [bootId, otherBootId, bootId, bootId];
    const answers = boots.map((boot) => reads.answers.answer("node-1", boot));
    await reads.giveLease(alive);
    await reads.giveLease(fenced);
    await reads.giveTaint(true);
    const verdicts = (await Promise.all(answers)).map(({ verdict }) => verdict);
    assert.deepEqual(verdicts, ["stop", "unknown", "stop", "stop"]);
    assert.deepEqual(reads.names, ["lease node-1", "lease node-1", "taint node-1"]);
  });

  test("questions about other nodes do not wait, and share nothing", async () => {
    const reads = new Reads();
    const one = reads.answers.answer("node-1", bootId);
    const two = reads.answers.answer("node-2", otherBootId);
    assert.deepEqual(reads.names, ["lease node-1", "lease node-2"]);
    await reads.giveLease(alive);
    await reads.giveLease(alive);
    assert.deepEqual(await one, { verdict: "alive" });
    assert.deepEqual(await two, { verdict: "unknown" });
  });

  test("a read that ends without an answer does not keep later questions waiting", async () => {
    const reads = new Reads();
    const first = reads.answers.answer("node-1", bootId);
    const second = reads.answers.answer("node-1", bootId);
    await reads.giveLease(refused(0));
    await reads.giveLease(alive);
    assert.deepEqual([await first, await second], [{ verdict: "unknown" }, { verdict: "alive" }]);
    const third = reads.answers.answer("node-1", bootId);
    await reads.giveLease(alive);
    assert.deepEqual(await third, { verdict: "alive" });
  });
});

suite("the limit of reads for peers", () => {
  test("beyond five reads in any second, over all nodes, the answer is unknown", async () => {
    const reads = new Reads();
    const ask = async (node: string) => {
      const answer = reads.answers.answer(node, bootId);
      await reads.giveLease(alive);
      return (await answer).verdict;
    };
    for (let count = 0; count < mostReadsPerSecond; count++) {
      assert.equal(await ask(`node-${count}`), "alive");
      reads.nowMs += 100;
    }
    assert.equal(await ask("node-9"), "unknown");
    reads.nowMs += 499;
    assert.equal(await ask("node-0"), "unknown");
    reads.nowMs += 1;
    assert.equal(await ask("node-0"), "alive");
    assert.equal(await ask("node-0"), "unknown");
    assert.equal(reads.sent.length, 6);
  });

  test("the read of a taint counts as well", async () => {
    const reads = new Reads();
    for (let count = 1; count < mostReadsPerSecond; count++) void reads.answers.answer(`node-${count}`, bootId);
    const answer = reads.answers.answer("node-9", bootId);
    for (let count = 0; count < mostReadsPerSecond; count++) await reads.giveLease(fenced);
    assert.deepEqual(await answer, { verdict: "unknown" });
    assert.equal(reads.sent.length, mostReadsPerSecond);
  });

  test("an agent that is out of contact answers any number of questions", async () => {
    const reads = new Reads();
    reads.lastSuccessMs = undefined;
    for (let count = 0; count < 100; count++) {
      assert.deepEqual(await reads.answers.answer(`node-${count}`, bootId), { verdict: "no-api" });
    }
  });
});
