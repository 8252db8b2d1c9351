/** Evictions over HTTP in a fake cluster. Compares the README with the server's answers. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";
import { pinningPath, plainPaths } from "../../../../functions/evaluate-eviction/observe.ts";
import type { AdmissionHandler } from "../../../../functions/shared/admission/definition.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createTestApp } from "../../../support/app.ts";
import { type Harness, namespace } from "../../shared/reconcile/harness.ts";
import { zoneBudget } from "../advance-zone-rollout/given.ts";
import { addBudget, governedGroup, Replica } from "./group-commit/reviews.ts";

const readme = await readFile(new URL("../../../../functions/evaluate-eviction/README.md", import.meta.url), "utf8");
const json = { "content-type": "application/json" };

interface Answer {
  readonly apiVersion: string;
  readonly response: {
    readonly uid: string;
    readonly allowed: boolean;
    readonly patchType?: string;
    readonly patch?: string;
    readonly warnings?: readonly string[];
    readonly status?: {
      readonly code: number;
      readonly reason: string;
      readonly message: string;
      readonly details?: { readonly causes: readonly object[] };
    };
  };
}

/** The app of a process that decides evictions. */
class ReviewServer {
  readonly harness: Harness;
  readonly replica: Replica;
  readonly app: ReturnType<typeof createTestApp>["app"];
  readonly lines: ReturnType<typeof createTestApp>["lines"];

  constructor(harness: Harness, changes: Partial<Context> = {}, handler?: AdmissionHandler) {
    this.harness = harness;
    this.replica = new Replica(harness, () => changes);
    const admissions = [{ definition: evaluateEviction, handler: handler ?? this.replica.handler }];
    const monotonicMs = () => this.replica.cluster.monotonicMs();
    ({ app: this.app, lines: this.lines } = createTestApp({ admissions, monotonicMs }));
  }

  /** Posts the review, and lets time pass until there is an answer. */
  async post(body: unknown, path = pinningPath, headers: Record<string, string> = json): Promise<Response> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    let answered: Response | undefined;
    const asked = Promise.resolve(this.app.request(path, { method: "POST", headers, body: text }));
    const done = asked.then((response) => {
      answered = response;
    });
    // The app reads bodies from streams, which need turns of the event loop, between which virtual time passes.
    while (answered === undefined) {
      await new Promise((resolve) => setImmediate(resolve));
      if (answered === undefined) this.harness.timeline.step();
    }
    await done;
    return answered;
  }

  async answer(body: unknown, path?: string): Promise<Answer> {
    const response = await this.post(body, path);
    assert.equal(response.status, 200);
    return (await response.json()) as Answer;
  }

  /** `allowed`, or the code of the refusal. */
  async outcome(request: object, path?: string): Promise<string | number> {
    const { response } = await this.answer(review(request), path);
    return response.allowed ? "allowed" : (response.status?.code ?? 0);
  }
}

/** The body that kube-apiserver 1.36 posts for `kubectl drain`, with the fields in its order. */
function review(request: object = {}, version = "v1"): object {
  const kind = { group: "policy", version: "v1", kind: "Eviction" };
  const resource = { group: "", version: "v1", resource: "pods" };
  const { name = "group-a-0" } = request as { name?: unknown };
  return {
    kind: "AdmissionReview",
    apiVersion: `admission.k8s.io/${version}`,
    request: {
      uid: "u-1",
      ...{ kind, resource, subResource: "eviction" },
      ...{ requestKind: kind, requestResource: resource, requestSubResource: "eviction" },
      ...{ name, namespace, operation: "CREATE" },
      userInfo: { username: "admin", groups: ["system:masters"] },
      object: { kind: "Eviction", apiVersion: "policy/v1", metadata: { name, namespace, creationTimestamp: null } },
      oldObject: null,
      dryRun: false,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1" },
      ...request,
    },
  };
}

/** The row of a table in the README that begins with these cells. */
function assertRow(...cells: readonly (string | number)[]): void {
  const row = cells.map((cell) => String(cell).replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(" +\\| ");
  assert.match(readme, new RegExp(`^\\| ${row}`, "m"), `the README has no row | ${cells.join(" | ")}`);
}

test("an allowing answer pins the uid by a JSON patch at one path only: others may belong to a validating webhook", async () => {
  const server = new ReviewServer(await governedGroup());
  const uid = server.replica.uidOf("group-a-0");
  for (const version of ["v1", "v1beta1"]) {
    const answer = await server.answer(review({}, version));
    const patch = JSON.parse(Buffer.from(answer.response.patch ?? "", "base64").toString());
    assert.deepEqual(patch, [{ op: "add", path: "/deleteOptions", value: { preconditions: { uid } } }]);
    assert.deepEqual([answer.apiVersion, answer.response.uid], [`admission.k8s.io/${version}`, "u-1"]);
    assert.deepEqual([answer.response.allowed, answer.response.patchType], [true, "JSONPatch"]);
  }
  for (const path of plainPaths) {
    await server.replica.harness.goOn(8_000);
    const { response } = await server.answer(review(), path);
    assert.deepEqual(response, { uid: "u-1", allowed: true }, path);
  }
});

test("a dry run is recognised by the request, or by the Eviction's own options, which kubectl drain uses", async () => {
  const isDryRun = async (request: object): Promise<unknown> => {
    const server = new ReviewServer(await governedGroup());
    assert.equal(await server.outcome(request), "allowed");
    const line = server.lines.find(({ guard }) => guard === "allowed");
    assert.equal(server.replica.writes.length === 0, line?.dryRun);
    return line?.dryRun;
  };
  const withOptions = (deleteOptions: unknown) => ({ object: { metadata: { name: "group-a-0" }, deleteOptions } });
  assert.equal(await isDryRun({ dryRun: true }), true);
  assert.equal(await isDryRun(withOptions({ dryRun: ["All"] })), true);
  for (const none of [undefined, null, [], {}, { dryRun: [] }, { dryRun: null }, { dryRun: "All" }]) {
    assert.equal(await isDryRun(withOptions(none)), false);
  }
});

test("a refusal is a 429 that kubectl drain knows from PodDisruptionBudgets", async () => {
  const server = new ReviewServer(await governedGroup());
  await server.outcome({});
  const { response } = await server.answer(review({ name: "group-b-1" }));
  const message = "1 pod not ready in group-a: no pod of group-b goes until that zone is whole";
  const details = { causes: [{ reason: "DisruptionBudget", message }] };
  const status = { status: "Failure", code: 429, reason: "TooManyRequests", message, details };
  assert.deepEqual(response, { uid: "u-1", allowed: false, status });
});

test("an exempt pod is allowed with its uid pinned, without a warning", async () => {
  const harness = await governedGroup();
  harness.world.store.delete("pods", { namespace, name: "group-a-0" });
  const server = new ReviewServer(harness);
  const { response } = await server.answer(review());
  assert.match(String(response.warnings), /^pod is not ready: group-a-0 is terminating already/);
  assert.equal(response.patchType, "JSONPatch");
});

test("the answer comes within nine tenths of the timeout that the API server names", async () => {
  const server = new ReviewServer(await governedGroup());
  server.replica.interfere = () => server.replica.cluster.sleep(60_000);
  for (const [timeout, withinMs] of [
    ["?timeout=2s", 1_800],
    ["?timeout=10s", 9_000],
    ["", 9_000],
    ["?timeout=soon", 9_000],
  ] as const) {
    const startMs = server.replica.cluster.monotonicMs();
    const { response } = await server.answer(review(), `${pinningPath}${timeout}`);
    assert.equal(response.status?.code, 429);
    const tookMs = server.replica.cluster.monotonicMs() - startMs;
    assert.ok(tookMs >= withinMs && tookMs <= withinMs + 10, `${tookMs} ms with ${timeout}`);
  }
});

const noName = "a namespace or a name that Kubernetes would not take";
const tooFar = "JSON that is nested more than 100 deep, or holds more than 100,000 values";

function nested(depth: number): string {
  return "[".repeat(depth) + "]".repeat(depth);
}

test("a body that is no review gets a status and a message, each in the README", async () => {
  const server = new ReviewServer(await governedGroup());
  const large = review({ object: "x".repeat(10_000_000) });
  for (const [row, status, pattern, body, headers] of [
    ["no JSON, or no body", 400, /the body is not JSON/, "{", json],
    ["no JSON, or no body", 400, /the body is empty/, "", json],
    ["no AdmissionReview, another version, or no uid", 400, /its kind is "Pod"/, { kind: "Pod" }, json],
    ["no AdmissionReview, another version, or no uid", 400, /its kind is missing/, "[]", json],
    [
      "no AdmissionReview, another version, or no uid",
      400,
      /and not admission\.k8s\.io\/v1 or/,
      review({}, "v2"),
      json,
    ],
    ["no AdmissionReview, another version, or no uid", 400, /no request with a uid/, review({ uid: 7 }), json],
    ["another content type", 415, /wrong content type/, review(), { "content-type": "text/plain" }],
    ["a body of more than 1 MiB", 413, /larger than 1048576 bytes/, large, json],
    ["a uid of more than 256 characters", 400, /its uid is longer than 256/, review({ uid: "u".repeat(257) }), json],
    [noName, 400, /its name "\.\.\/\.\.\/leases\/x" is not a name/, review({ name: "../../leases/x" }), json],
    [noName, 400, /its name "\\ud800" is not a name/, review({ name: "\ud800" }), json],
    [noName, 400, /its namespace "a\.b" is not a name/, review({ namespace: "a.b" }), json],
    [tooFar, 400, /nested more than 100 deep/, `{"request":${nested(100)}}`, json],
    [tooFar, 400, /more than 100000 values/, `[${"0,".repeat(100_001)}0]`, json],
  ] as const) {
    for (const path of evaluateEviction.paths) {
      const response = await server.post(body, path, headers);
      assert.equal(response.status, status, row);
      assert.match(await response.text(), pattern, row);
    }
    assertRow(row, `HTTP ${status} and a message`);
  }
  for (const method of ["GET", "PUT", "DELETE"]) {
    const got = await server.app.request(pinningPath, { method });
    assert.deepEqual([got.status, got.headers.get("allow")], [405, "POST"]);
  }
  assertRow("another method", "HTTP 405 and a message");
  assert.deepEqual(server.replica.calls, [], "nothing was asked for any of them");
});

test("the README has the answer to each review of something else, and to each missing field", async () => {
  const harness = await governedGroup({ maxUnavailable: 4 });
  const server = new ReviewServer(harness);
  for (const [row, code, request] of [
    ["an operation that is not CREATE", 400, { operation: "DELETE" }],
    ["an operation that is not CREATE", 400, { operation: undefined }],
    ["an operation that is not CREATE", 400, { operation: ["CREATE"] }],
    ["a subresource that is not eviction", 400, { subResource: "exec" }],
    ["a subresource that is not eviction", 400, { subResource: undefined }],
    ["no namespace, or no name", 400, { namespace: "" }],
    ["no namespace, or no name", 400, { name: undefined }],
    ["no namespace, or no name", 400, { name: { first: "group-a-0" } }],
    ["a pod that is gone", 404, { name: "group-a-9" }],
  ] as const) {
    for (const path of [pinningPath, plainPaths[0]]) assert.equal(await server.outcome(request, path), code, row);
    assertRow(row, `denied, ${code}`);
  }
  for (const object of [undefined, null, "an eviction", 7, [], {}, { deleteOptions: "none" }, { deleteOptions: [] }]) {
    assert.equal(await server.outcome({ object, dryRun: true }), "allowed");
  }
  assertRow("no object, or options that are none", "decided as an eviction without options");
});

test("the README has the answer for pods that belong to no StatefulSet", async () => {
  const harness = await governedGroup();
  // The owners of these pods do not exist, so the pods would soon be gone as well.
  harness.world.garbageCollector.stop();
  const server = new ReviewServer(harness);
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "rs", uid: "u", controller: true };
  for (const [row, ownerReferences] of [
    ["a pod without owner", []],
    ["a pod without owner", [{ ...owner, kind: "StatefulSet", controller: false }]],
    ["an owner of another kind", [owner]],
  ] as const) {
    const isOfOther = ownerReferences.some(({ controller }) => controller);
    for (const [group, name, outcome] of [
      ["group", "alone-1", isOfOther ? 500 : 429],
      ["group", "alone", isOfOther ? 500 : "allowed"],
      ["other", "alone-1", "allowed"],
    ] as const) {
      const metadata = { name, labels: { "rollout-group": group }, ownerReferences };
      harness.world.store.create("pods", namespace, { metadata, spec: { containers: [] } });
      assert.equal(await server.outcome({ name }), outcome, row);
      harness.world.store.delete("pods", { namespace, name }, { gracePeriodSeconds: 0 });
    }
    assertRow(row, `denied, ${isOfOther ? "500" : "429"} where a budget selects it`);
  }
});

test("the README has the answer for budgets that Sluice cannot keep, and for those of nothing or of everything", async () => {
  const ofEverything = { maxUnavailablePercentage: 100 };
  for (const [row, field, spec, replicas, expected] of [
    ["a percentage of 0", "denied, 403", { maxUnavailablePercentage: 0 }, 3, 403],
    ["a percentage of 100", "decided:", ofEverything, 3, "allowed"],
    ["0 replicas", "decided:", ofEverything, 0, "allowed"],
    ["0 replicas", "decided: a percentage is of one pod then", { maxUnavailable: 1 }, 0, "allowed"],
    ["an expression that does not match", "denied, 400", { podNamePartitionRegex: "x-([0-9]+)" }, 3, 400],
    ["an invalid budget that is stored", "denied, 429", { maxUnavailable: "many" }, 3, 429],
  ] as const) {
    const harness = await governedGroup(spec, { replicas: 3 });
    if (replicas === 0) {
      harness.world.stop();
      for (const name of ["group-a", "group-b"]) harness.world.scale({ namespace, name }, 0);
      for (const { metadata } of harness.world.store.list("pods").items) {
        if (metadata.name !== "group-a-0") harness.world.store.delete("pods", metadata, { gracePeriodSeconds: 0 });
      }
    }
    assert.equal(await new ReviewServer(harness).outcome({}), expected, row);
    assertRow(row, field);
  }
  const harness = await governedGroup(ofEverything, { replicas: 3 });
  const server = new ReviewServer(harness);
  for (const name of ["group-a-0", "group-a-1", "group-a-2"]) assert.equal(await server.outcome({ name }), "allowed");
  assert.equal(await server.outcome({ name: "group-b-0" }), 429);
  addBudget(harness, {}, "second");
  assert.equal(await server.outcome({}), 400);
  assertRow("several budgets", "denied, 400");
});

test("a hostile expression takes time in proportion to the name", { timeout: 60_000 }, async () => {
  const spec = { podNamePartitionRegex: "group-(a+)+$" };
  const longest = "a".repeat(253 - "group--0".length);
  const server = new ReviewServer(await governedGroup(spec, { zones: [longest, "b"], replicas: 2 }));
  assert.equal(await server.outcome({ name: `group-${longest}-0` }), 400);

  const stored = zoneBudget("hostile", spec);
  assert.ok("budget" in stored.parsed);
  const { partitions } = stored.parsed.budget;
  const leastMs = (length: number): number => {
    const rounds = Array.from({ length: 300 }, (_, round) => {
      // Each name only once, because a known name costs nothing.
      const name = `group-${"a".repeat(length)}-${round}`;
      const startMs = performance.now();
      assert.equal(partitions?.partitionOf(name), undefined);
      return performance.now() - startMs;
    });
    return Math.min(...rounds);
  };
  leastMs(500);
  const [short, long] = [leastMs(60), leastMs(240)];
  assert.ok(long <= 16 * short, `${short} ms for 60 characters, and ${long} ms for four times as many`);
  assertRow("a hostile expression, such as `(a+)+$`", "denied, 400; a name takes time in proportion to its length");
});

test("both servers refuse when the function throws, and the table says so", async () => {
  const broken: AdmissionHandler = { review: () => Promise.reject(new Error("the sky fell")) };
  const server = new ReviewServer(await governedGroup(), {}, broken);
  for (const path of evaluateEviction.paths) {
    const { response } = await server.answer(review(), path);
    assert.deepEqual([response.allowed, response.status?.code], [false, 500]);
    assertRow(`\`${path}\``, `${evaluateEviction.whenBroken}: denied, 500`);
  }
  assert.ok(server.lines.some(({ level, msg }) => level === "error" && String(msg).includes("the sky fell")));
});

test("rollout-operator's metrics and our own count reviews", async () => {
  const harness = await governedGroup();
  const server = new ReviewServer(harness);
  for (const name of ["group-a-0", "group-a-1", "group-b-0", "group-a-9"]) await server.outcome({ name });
  await server.outcome({ operation: "UPDATE" });
  const text = await (await server.app.request("/metrics")).text();
  const has = (line: string) => assert.ok(text.includes(`${line}\n`), line);
  const counted = (reason: string, status: number, count: number) =>
    has(`rollout_operator_zpdb_eviction_requests_total{reason="${reason}",status="${status}"} ${count}`);
  counted("allowed", 200, 1);
  counted("denied", 429, 2);
  counted("pod-not-found", 404, 1);
  counted("invalid-request", 400, 1);
  has("rollout_operator_zpdb_inflight_eviction_requests 0");
  const verdict = (guard: string) => has(`sluice_verdicts_total{function="evaluate-eviction",guard="${guard}"} 1`);
  for (const guard of ["allowed", "zone-budget", "zones-down", "pod-gone", "invalid-request"]) verdict(guard);
});

test("a review's reservation is logged at info with the user who asked, cut and without invisible characters", async () => {
  const server = new ReviewServer(await governedGroup({ maxUnavailable: 2 }));
  const userInfo = { username: `eve\n\u202e\u0007${"x".repeat(1_000)}` };
  await server.outcome({ userInfo, dryRun: true });
  assert.ok(!server.lines.some(({ level, guard }) => level === "info" && guard === "allowed"), "it reserves nothing");
  await server.outcome({ userInfo });
  await server.outcome({ name: "group-a-1", userInfo: undefined });
  const logged = server.lines.filter(({ level, guard }) => level === "info" && guard === "allowed");
  assert.deepEqual(
    logged.map(({ object, user }) => [object, user]),
    [
      ["group-a-0", `eve\\u000a\\u202e\\u0007${"x".repeat(74)}`],
      ["group-a-1", ""],
    ],
  );
  assert.match(String(logged[0]?.msg), /^group-a-0 is reserved, and may go: a review asked for it$/);
});

test("no answer and no line of the log has a client's long text", async () => {
  const server = new ReviewServer(await governedGroup());
  const long = "9".repeat(100_000);
  const object = { deleteOptions: { preconditions: { uid: long } }, metadata: { annotations: { long } } };
  const userInfo = { username: long, groups: [long] };
  const { response } = await server.answer(review({ object, userInfo, kind: long }));
  assert.equal(response.status?.code, 409);
  assert.ok(JSON.stringify(response).length < 1_000);
  assert.ok(server.lines.every((line) => JSON.stringify(line).length < 2_000));
});

test("Sluice logs a storm of refusals once a minute for each guard and zone, and at debug each refusal", async () => {
  const server = new ReviewServer(await governedGroup());
  await server.outcome({});
  for (let round = 0; round < 5; round++) {
    for (const name of ["group-a-1", "group-a-2", "group-b-0"]) await server.outcome({ name });
  }
  const at = (level: string) => server.lines.filter((line) => line.level === level && "guard" in line);
  const logged = at("info").map(({ guard, zone }) => `${guard} ${zone}`);
  assert.deepEqual(logged, ["allowed group-a", "zone-budget group-a", "zones-down group-b"]);
  assert.equal(at("debug").length, 13);
  addBudget(server.harness, {}, "second");
  for (const name of ["group-a-1", "group-b-0"]) await server.outcome({ name });
  assert.equal(at("info").length, 5, "a zone each");
});
