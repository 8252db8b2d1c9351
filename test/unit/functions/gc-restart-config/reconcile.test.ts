/** Secrets with expected files that nothing names any more: when they go, and what keeps them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gcRestartConfig } from "../../../../functions/gc-restart-config/function.ts";
import type { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { Harness, key, ledgerKey, namespace, played, refused } from "../../shared/reconcile/harness.ts";

const set = { namespace, name: "group-a" };
const sweepMs = 300_000;
const configs = "sluice.dev/restart-configs";

class ConfigStage extends Harness {
  constructor() {
    super({ zones: ["a"], replicas: 2 });
    for (const name of ["old", "new", "mounted"]) this.createSecret(name);
    this.expect("old");
  }

  createSecret(name: string, labels: Readonly<Record<string, string>> = { "sluice.dev/restart-config": "" }): void {
    this.world.store.create("secrets", namespace, { metadata: { name, labels }, data: {} } as never);
  }

  /** Names the expected Secret on the StatefulSet. */
  expect(name: string | null): void {
    const manager = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" };
    const mounted = name === null ? null : "mounted";
    this.world.annotate(set, { ...manager, "sluice.dev/restart-config": name, "sluice.dev/restart-mounted": mounted });
  }

  has(name: string): boolean {
    return this.world.store.find("secrets", { namespace, name }) !== undefined;
  }

  get known(): Readonly<Record<string, { readonly unnamed?: number; readonly checks?: number }>> {
    return JSON.parse(this.world.store.get("leases", ledgerKey).metadata.annotations?.[configs] ?? "{}");
  }

  /** One sweep after the usual time, or after another one. */
  async sweep(afterMs = sweepMs): Promise<void> {
    await this.goOn(afterMs);
    await played(this.timeline, gcRestartConfig.reconcile(this.context, key, { sweep: true }));
  }

  async sweeps(count: number): Promise<void> {
    for (let swept = 0; swept < count; swept++) await this.sweep();
  }

  /** A ledger that knows the Secret `old`, which nothing names any more. */
  async unnamed(): Promise<this> {
    await this.sweeps(2);
    assert.deepEqual(Object.keys(this.known), ["old"]);
    this.expect("new");
    return this;
  }

  get deletions(): readonly string[] {
    return this.requests.filter((request) => request.startsWith("delete "));
  }
}

test("a Secret goes 15 minutes after nothing has named it, by uid and revision, and the one that is named stays", async () => {
  const stage = await new ConfigStage().unnamed();
  await stage.sweeps(3);
  assert.deepEqual([stage.has("old"), stage.known.old?.checks, stage.guard], [true, 3, "config-unnamed"]);
  await stage.sweep();
  assert.deepEqual([stage.has("old"), stage.has("new"), stage.has("mounted")], [false, true, true]);
  assert.deepEqual(stage.deletions, ["delete secrets"]);
  const [{ given = [] } = {}] = stage.calls.filter(({ verb }) => verb === "delete");
  assert.ok(JSON.stringify(given).includes("resourceVersion"), JSON.stringify(given));
  await stage.sweep();
  assert.deepEqual([Object.keys(stage.known), stage.guard], [["new"], "done"]);
});

test("an event is no look, and many sweeps in a row make no Secret due", async () => {
  const stage = await new ConfigStage().unnamed();
  for (let at = 0; at < 10; at++) await stage.sweep(1_000);
  assert.equal(stage.has("old"), true);
  stage.forget();
  await played(stage.timeline, gcRestartConfig.reconcile(stage.context, key, { sweep: false }));
  assert.deepEqual(stage.requests, []);
});

test("a Secret that is named again loses its mark, and its 15 minutes begin anew", async () => {
  const stage = await new ConfigStage().unnamed();
  await stage.sweeps(3);
  stage.expect("old");
  await stage.sweep();
  assert.deepEqual([stage.known.old?.unnamed, stage.has("old")], [undefined, true]);
  stage.expect("new");
  await stage.sweeps(3);
  assert.equal(stage.has("old"), true);
});

test("a Secret stays without the label, and where it was made anew under its name", async () => {
  const stage = await new ConfigStage().unnamed();
  await stage.sweep();
  stage.world.store.delete("secrets", { namespace, name: "old" });
  stage.createSecret("old");
  await stage.sweeps(5);
  assert.deepEqual([stage.has("old"), Object.keys(stage.known)], [true, ["new"]]);
  const plain = new ConfigStage();
  plain.createSecret("plain", {});
  plain.expect("plain");
  await plain.sweeps(2);
  plain.expect("new");
  await plain.sweeps(6);
  assert.deepEqual([plain.has("plain"), Object.keys(plain.known)], [true, ["new"]]);
});

test("a Secret stays while a template or a pod names it, also where a StatefulSet comes just before the removal", async () => {
  const stage = await new ConfigStage().unnamed();
  const volumes = [{ name: "files", projected: { sources: [{ secret: { name: "old" } }] } }];
  stage.world.store.patch("pods", { namespace, name: "group-a-0" }, { spec: { volumes } } as never);
  await stage.sweeps(4);
  assert.deepEqual([stage.has("old"), stage.known.old?.unnamed], [true, undefined], "the pod names it");
  stage.world.store.patch("pods", { namespace, name: "group-a-0" }, { spec: { volumes: [] } } as never);
  await stage.sweeps(3);
  let gets = 0;
  stage.interfere = ({ verb, resource, given }) => {
    // The second GET of the Secret in a sweep is the one before its removal.
    if (verb === "get" && resource === "secrets" && JSON.stringify(given).includes('"old"') && ++gets === 2) {
      const spec = { template: { spec: { volumes: [{ name: "files", secret: { secretName: "old" } }] } } };
      stage.world.store.patch("statefulsets", set, { spec } as never);
    }
  };
  await stage.sweep();
  assert.deepEqual([gets, stage.has("old")], [2, true]);
});

test("nothing is removed while a process of the group is being restarted", async () => {
  const stage = await new ConfigStage().unnamed();
  await stage.sweeps(3);
  const shared = {
    id: "process group-a-1",
    kind: "process",
    by: "advance-process-restart",
    zone: "group-a",
    phase: "starting",
  } as const;
  const anchor = { resource: "pods", name: "group-a-1", annotation: "sluice.dev/restart-id" };
  const claim = makeClaim({
    ...shared,
    anchor,
    members: [{ first: 1, last: 1 }],
    terms: "asked",
    stampMs: stage.timeline.nowMs(),
  });
  stage.writeLedger({ "sluice.dev/claims": claim.line });
  await stage.sweeps(2);
  assert.deepEqual([stage.has("old"), stage.guard], [true, "config-restarting"], stage.verdicts.at(-1)?.message);
  stage.writeLedger({ "sluice.dev/claims": "" });
  await stage.sweep();
  assert.deepEqual([stage.has("old"), stage.guard], [false, "config-removing"]);
});

test("a clock that was set does not remove a Secret before three sweeps, and a mark of the future begins anew", async () => {
  const stage = await new ConfigStage().unnamed();
  await stage.sweep(1_000);
  await stage.sweep(3_600_000);
  assert.equal(stage.has("old"), true, "two sweeps have read it");
  stage.writeLedger({ [configs]: mark(stage, stage.timeline.nowMs() + 86_400_000) });
  await stage.sweep(1_000);
  assert.deepEqual([stage.has("old"), stage.known.old?.checks], [true, 1]);
});

test("a ledger whose entries are malformed removes nothing, and knows again what is named", async () => {
  const stage = await new ConfigStage().unnamed();
  await stage.sweeps(3);
  for (const text of ["{", "[]", '{"old":{"uid":1}}', mark(stage, -1), mark(stage, 1, -1)]) {
    stage.writeLedger({ [configs]: text });
    await stage.sweeps(2);
    assert.deepEqual([stage.has("old"), Object.keys(stage.known)], [true, ["new"]], text);
  }
});

test("without the right an Event names the Secret and the Role, and the Secret stays", async () => {
  const stage = await new ConfigStage().unnamed();
  stage.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "secrets")
      throw refused(403, 'cannot delete resource "secrets"') as ClusterError;
  };
  await stage.sweeps(5);
  const events = stage.events.filter((event) => event.startsWith("RestartConfigKept group-a: "));
  assert.deepEqual([stage.has("old"), events.length], [true, 1]);
  assert.match(events[0] ?? "", /write a Role with delete on old/);
  stage.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === "secrets") throw refused(403, 'cannot get resource "secrets"');
  };
  await stage.sweep();
  assert.equal(stage.guard, "config-forbidden");
});

test("in shadow mode nothing is written", async () => {
  const stage = await new ConfigStage().unnamed();
  await stage.sweeps(3);
  stage.restart({ mode: "shadow" });
  stage.forget();
  await stage.sweeps(3);
  assert.equal(stage.has("old"), true);
  assert.deepEqual(
    stage.requests.filter((request) => /^(create|patch|delete) /.test(request)),
    [],
  );
});

/** The annotation of a ledger in which `old` has been unnamed since then, after three sweeps. */
function mark(stage: ConfigStage, unnamed: number, checked = stage.timeline.nowMs()): string {
  const { uid } = stage.world.store.get("secrets", { namespace, name: "old" }).metadata;
  return JSON.stringify({ old: { uid, unnamed, checks: 3, checked } });
}
