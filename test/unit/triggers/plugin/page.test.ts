/** Which replica kubectl sluice page makes reachable, and how it ends. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PortForward } from "../../../../triggers/plugin/port-forward.ts";
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

interface ReplicaOptions {
  readonly where?: string;
  readonly listen?: string | undefined;
  readonly isReady?: boolean;
}

function addReplica(harness: Harness, name: string, options: ReplicaOptions = {}): void {
  const { where = namespace, isReady = true } = options;
  const listen = "listen" in options ? options.listen : "127.0.0.1:8002";
  const env = listen === undefined ? [] : [{ name: "STATUS_LISTEN", value: listen }];
  const spec = { nodeName: "n", containers: [{ name: "sluice", image: "sluice:0.1.0", env }] };
  const labels = { "app.kubernetes.io/name": "sluice" };
  harness.world.store.create("pods", where, { metadata: { name, labels }, spec });
  setReady(harness, name, isReady, where);
}

function setReady(harness: Harness, name: string, isReady: boolean, where = namespace): void {
  const conditions = [
    { type: "Ready", status: isReady ? "True" : "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
  ];
  harness.world.store.patch("pods", { namespace: where, name }, { status: { phase: "Running", conditions } }, "status");
}

/** A kubectl that forwards, until the test or the command ends it. `failing`: pods that it does not reach, with its message. */
class Forwarder {
  readonly runs: string[] = [];
  readonly ends: ((why: string) => void)[] = [];
  readonly failing: Readonly<Record<string, string>>;

  constructor(failing: Readonly<Record<string, string>> = {}) {
    this.failing = failing;
  }

  readonly forward = (args: readonly string[]): PortForward => {
    this.runs.push(args.join(" "));
    const ended = Promise.withResolvers<string>();
    const failure = Object.entries(this.failing).find(([name]) => args.includes(`pod/${name}`))?.[1];
    if (failure !== undefined) ended.resolve(failure);
    this.ends.push(ended.resolve);
    const forwarding = Promise.resolve(failure === undefined ? 8002 : undefined);
    return { forwarding, ended: ended.promise, end: () => ended.resolve("signal: interrupt") };
  };
}

async function page(harness: Harness, forwarder: Forwarder, { seconds = 10, line = "page" } = {}) {
  const over = new AbortController();
  harness.timeline.after(seconds * 1_000, () => over.abort());
  const rest = { forward: forwarder.forward, interrupted: () => over.signal };
  return sluice(harness, line, harness.cluster, {}, rest);
}

test("page forwards to a ready replica with the same context, prints the URL, and Ctrl-C ends both", async () => {
  const harness = new Harness();
  addReplica(harness, "sluice-0", { isReady: false });
  addReplica(harness, "sluice-1", { where: "aaa" });
  addReplica(harness, "sluice-2", { listen: "0.0.0.0:9000" });
  const forwarder = new Forwarder();
  const { code, out, err } = await page(harness, forwarder, {
    line: "page --port 8080 --context blue --kubeconfig file",
  });
  assert.deepEqual([code, err, writes(harness)], [0, [], []]);
  assert.equal(out, "http://127.0.0.1:8002/ shows the page of db/sluice-2; Ctrl-C ends it\n");
  assert.deepEqual(forwarder.runs, [
    "--kubeconfig=file --context=blue --namespace=db port-forward --address=127.0.0.1 pod/sluice-2 8080:9000",
  ]);
  const any = new Forwarder();
  await page(harness, any, { line: "page --port 0 -n aaa" });
  assert.deepEqual(any.runs, ["--namespace=aaa port-forward --address=127.0.0.1 pod/sluice-1 :8002"]);
});

test("if its replica goes, is not ready any more or is lost, page takes another one", async () => {
  const ends: Readonly<Record<string, (harness: Harness, forwarder: Forwarder) => void>> = {
    gone: (harness) => harness.world.store.delete("pods", { namespace, name: "sluice-0" }),
    "not ready": (harness) => setReady(harness, "sluice-0", false),
    lost: (harness, { ends: [end] }) => {
      setReady(harness, "sluice-0", false);
      end?.("error: lost connection to pod");
    },
  };
  for (const [what, end] of Object.entries(ends)) {
    const harness = new Harness();
    addReplica(harness, "sluice-0");
    const forwarder = new Forwarder();
    harness.timeline.after(5_000, () => end(harness, forwarder));
    harness.timeline.after(20_000, () => addReplica(harness, "sluice-1"));
    const { code, out, err } = await page(harness, forwarder, { seconds: 40 });
    assert.equal(code, 0, what);
    assert.equal(out.match(/shows the page of db\/sluice-[01]/g)?.length, 2, what);
    assert.match(err.join("\n"), /^db\/sluice-0 is not reached any more: .+$/, what);
  }
});

test("page ends with 1 if no other replica becomes ready within a minute", async () => {
  const harness = new Harness();
  addReplica(harness, "sluice-0");
  harness.timeline.after(5_000, () => setReady(harness, "sluice-0", false));
  const beganMs = harness.cluster.monotonicMs();
  const { code, err } = await page(harness, new Forwarder(), { seconds: 600 });
  assert.equal(code, 1);
  assert.match(err.at(-1) ?? "", /^none of 1 replicas is ready: kubectl describe pod -n db sluice-0$/);
  const tookMs = harness.cluster.monotonicMs() - beganMs;
  assert.ok(tookMs >= 65_000 && tookMs < 75_000, `${tookMs} ms`);
});

test("each replica is tried once, and the last answer is the message", async () => {
  const harness = new Harness();
  addReplica(harness, "sluice-0");
  addReplica(harness, "sluice-1");
  const forbidden = 'error: pods "sluice-1" is forbidden: User "u" cannot create resource "pods/portforward"';
  const forwarder = new Forwarder({ "sluice-0": "error: timeout", "sluice-1": forbidden });
  const { code, out, err } = await page(harness, forwarder);
  assert.deepEqual([code, out, forwarder.runs.length], [1, "", 2]);
  assert.equal(err.at(-1), `no replica can be reached: ${forbidden}`);
});

/** What keeps the page from being shown, and what the message says. */
const mistakes: readonly (readonly [what: string, make: (harness: Harness) => unknown, message: RegExp])[] = [
  ["no replica", () => {}, /^there is no replica of Sluice: see kubectl sluice check$/],
  [
    "none is ready",
    (one) => addReplica(one, "r", { isReady: false }),
    /^none of 1 replicas is ready: kubectl describe/,
  ],
  [
    "the status is off",
    (one) => addReplica(one, "r", { listen: "off" }),
    /^no page is shown by db\/r: set STATUS_LISTEN=/,
  ],
  ["the setting is not set", (one) => addReplica(one, "r", { listen: undefined }), /^no page is shown by db\/r: set /],
  ["another address", (one) => addReplica(one, "r", { listen: "10.0.0.1:80" }), /^no page is shown by db\/r: set /],
];

for (const [what, make, message] of mistakes) {
  test(`without a page that can be shown the message says what to do: ${what}`, async () => {
    const harness = new Harness();
    make(harness);
    const forwarder = new Forwarder();
    const { code, out, err } = await page(harness, forwarder);
    assert.deepEqual([code, out, forwarder.runs], [1, "", []]);
    assert.match(err[0] ?? "", message);
  });
}

test("a port that is taken, and a missing right to list pods, end it with 1 at once", async () => {
  const harness = new Harness();
  addReplica(harness, "sluice-0");
  const taken = "error: unable to listen on any of the requested ports: [{8002 8002}]";
  const first = await page(harness, new Forwarder({ "sluice-0": taken }));
  assert.deepEqual(
    [first.code, first.err],
    [1, ["port 8002 of this machine is taken, or may not be used: choose one with --port"]],
  );
  harness.interfere = ({ verb }) => {
    if (verb === "get") throw refused(403, 'User "u" cannot get resource "pods"');
  };
  const unread = new Forwarder();
  assert.equal((await page(harness, unread)).code, 0, "without its settings the usual port is tried");
  assert.match(unread.runs[0] ?? "", / pod\/sluice-0 8002:8002$/);
  harness.interfere = ({ verb }) => {
    if (verb === "list") throw refused(403, 'User "u" cannot list resource "pods"');
  };
  const second = await page(harness, new Forwarder());
  assert.deepEqual([second.code, second.err], [1, ['a right is missing: User "u" cannot list resource "pods"']]);
});
