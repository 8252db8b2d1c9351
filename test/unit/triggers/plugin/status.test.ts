/** What kubectl sluice status prints, once and while it watches, and that it decides as the port of the status does. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { ClusterError, type StatefulSetObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { owner, group as ownerGroup } from "../../../support/owned.ts";
import {
  createLedgerOf,
  createLoneRestart,
  createOwnedGroup,
  loneGroup,
  writePhase,
} from "../../../support/status-groups.ts";
import { Harness, ledgerKey, namespace, refused } from "../../shared/reconcile/harness.ts";
import { readServed } from "./served-status.ts";
import { sluice, writes } from "./terminal.ts";

const [first, second] = ["group-a", "group-b"];

function addGroup(harness: Harness, name: string, where: string): void {
  harness.world.addGroup({ namespace: where, group: name, zones: ["x"], replicas: 1 });
  harness.world.settle();
}

test("status shows a group at work with its guard, its zones and their pods, and a group at rest in one line", async () => {
  const harness = await new Harness().prepare();
  addGroup(harness, "quiet", namespace);
  await harness.run();
  harness.forget();
  const { code, out, err } = await sluice(harness, "status");
  assert.deepEqual([code, err, writes(harness)], [0, [], []]);
  assert.match(
    out,
    /^Status of namespace db at \d{4}-\S+Z\n\nNothing needs you\.\n\ndb\/group: working, 0 of 4 updated, /,
  );
  assert.match(out, /\n {2}advance-zone-rollout: rolling, for \d+ s: rolling group-a: /);
  assert.match(
    out,
    /\nZONE +UPDATED +READY +DOWN +REVISION +NOW\ngroup-a +0\/2 +\d\/2 +1 of 1 +\S+ to \S+ +.*(reserved|terminating|missing): \d/,
  );
  assert.match(out, /\n\nAT REST +ZONES +READY +LAST POD READY\ndb\/quiet +1 +1\/1 +\d+ \S+ ago\n/);
});

test("with a GROUP only what is about it is shown, also of a group that is called alike, and one that is not there ends with 1", async () => {
  const harness = await new Harness().prepare();
  addGroup(harness, "group-a", namespace);
  addGroup(harness, "group", "other");
  const read = async (line: string): Promise<Status> => JSON.parse((await sluice(harness, line)).out);
  const groupsOf = ({ groups }: Status) => groups.map((one) => `${one.namespace}/${one.group}`);
  assert.deepEqual(groupsOf(await read("status group -o json")), ["db/group"]);
  assert.deepEqual(groupsOf(await read("status -o json")), ["db/group", "db/group-a"]);
  assert.deepEqual(groupsOf(await read("status group -A -o json")), ["db/group", "other/group"]);
  assert.deepEqual(groupsOf(await read("status -A -o json")), ["db/group", "db/group-a", "other/group"]);
  const missing = await sluice(harness, "status none");
  assert.deepEqual([missing.code, missing.out], [1, ""]);
  assert.match(missing.err[0] ?? "", /^there is no group "none" in namespace db .+: there are "group", "group-a"$/);
  assert.deepEqual((await sluice(harness, "status none -A")).err, ['there is no group "none" in any namespace']);
  const empty = await sluice(harness, "status -n empty");
  assert.deepEqual([empty.code, empty.out, empty.err], [0, "", ["there is no group in namespace empty"]]);
});

/** States of a group, by what makes them of a rollout that has just begun. */
const states: Readonly<Record<string, (harness: Harness) => unknown>> = {
  "at rest": () => {},
  "a reservation": async (harness) => void (await harness.run()),
  "a ledger that cannot be read": (harness) => harness.writeLedger({ "sluice.dev/reservations": "no JSON" }),
  "a guard that only a person ends": (harness) => writeVerdict(harness, "delete-refused"),
  "a guard of a later version": (harness) => writeVerdict(harness, "later-guard"),
  "an annotation that does not parse": (harness) => annotate(harness, { "rollout-max-unavailable": "many" }),
  "a paused zone": (harness) => annotate(harness, { "grafana.com/rollout-paused": "true" }),
  "a group of another owner": (harness) => {
    createOwnedGroup(harness.world, namespace, ["a", "b"], 2);
    return harness.goOn(10_000);
  },
  "a restart that only a person ends, without a group": ({ world }) => {
    createLoneRestart(world, namespace);
    createLedgerOf(world, namespace, loneGroup);
    writePhase(world, namespace, "alone-x-2", "schedule-rolling");
  },
  "no group any more": (harness) => {
    for (const { metadata } of harness.world.store.list("statefulsets").items)
      harness.world.store.delete("statefulsets", { namespace, name: metadata.name });
  },
};

function annotate(harness: Harness, annotations: Readonly<Record<string, string>>): void {
  harness.world.store.patch("statefulsets", { namespace, name: first }, { metadata: { annotations } });
}

function writeVerdict(harness: Harness, guard: string): void {
  const at = harness.cluster.serverTimeMs();
  const verdict = { guard, zone: first, sentence: "it waits", since: at - 3_600_000, at };
  harness.writeLedger({ "sluice.dev/verdicts": JSON.stringify({ "advance-zone-rollout": verdict }) });
}

for (const [state, make] of Object.entries(states)) {
  test(`the JSON of the command is that of the port of the status, but for who answers and when: ${state}`, async () => {
    const harness = state === "at rest" ? new Harness() : await new Harness().prepare();
    await harness.run();
    await make(harness);
    const served = await readServed(harness);
    const { out } = await sluice(harness, "status -o json");
    const own: Status = JSON.parse(out || "null") ?? served;
    const same = (status: Status | undefined) => ({ ...status, at: "", answeredBy: undefined });
    assert.deepEqual(same(own), same(served));
    const besides = /another owner|without a group/.test(state) ? 1 : 0;
    assert.equal(served?.groups.length, state === "no group any more" ? 0 : 1 + besides);
    assert.equal(served?.needsPerson.length, Number(/cannot be read|only a person|does not parse/.test(state)));
  });
}

test("a group of another owner has its zones without a revision, also by its name, and lacks only the right to list volume claims", async () => {
  const harness = new Harness();
  createOwnedGroup(harness.world, namespace, ["a", "b"], 2);
  await harness.goOn(10_000);
  harness.world.store.delete("pods", { namespace, name: "b-1" }, {});
  for (const line of ["status", `status ${ownerGroup}`]) {
    const { out } = await sluice(harness, line);
    assert.ok(out.includes(`\ndb/${ownerGroup}: working, 3 of 4 updated, 3 ready`), out);
    assert.match(out, /\nb +1\/2 +1\/2 +1 of 1 +- +terminating: 1\n/);
  }
  const { groups }: Status = JSON.parse((await sluice(harness, `status ${ownerGroup} -o json`)).out);
  assert.deepEqual(
    groups.map((one) => one.owner),
    [owner],
  );
  harness.interfere = ({ verb, resource }) => {
    if (verb === "list" && resource === "persistentvolumeclaims") throw refused(403, "cannot list volume claims");
  };
  const without = await sluice(harness, "status");
  assert.equal(without.code, 0);
  assert.match(without.out, /^NOT SHOWN .*group db\/owner:\S+.*: .*cannot list volume claims$/m);
});

test("restarts are shown with their pods, their state and what to do, of a StatefulSet without a group as well", async () => {
  const harness = new Harness();
  createLoneRestart(harness.world, namespace);
  for (const pod of ["alone-x-0", "alone-x-1"]) writePhase(harness.world, namespace, pod, "schedule");
  const { out } = await sluice(harness, "status");
  assert.match(
    out,
    /^NEEDS YOU: 1\ndb\/alone-x: restart-unserved\n {2}alone-x has no rollout-group, and no function begins/m,
  );
  assert.match(out, /\ndb\/statefulset:alone-x: done, 3 of 3 updated/);
  assert.match(
    out,
    /\n {2}restart of alone-x 0-1: unserved: alone-x has no .*\n {2}To do: give the StatefulSet a rollout-group/,
  );
  writePhase(harness.world, namespace, "alone-x-0", "failed");
  const failed = await sluice(harness, "status");
  assert.match(
    failed.out,
    /\n {2}restart of alone-x 0: failed, restart-failed: the restart of the process of alone-x: 0 has failed/,
  );
  const watching = await watched(harness, 1);
  assert.match(
    watching.out,
    /db\/statefulset:alone-x: done, .*; restart of alone-x 0: failed; restart of alone-x 1: unserved/,
  );
});

test("a volume that stays after its pod is shown, also for its group alone", async () => {
  const harness = new Harness();
  harness.world.store.create("persistentvolumeclaims", namespace, {
    metadata: {
      name: "data-group-b-7",
      labels: { "sluice.dev/suspended": "true" },
      annotations: { "sluice.dev/suspend": "true", "sluice.dev/suspended-at": "2025-12-31T00:00:00Z" },
    },
  });
  for (const line of ["status", "status group"]) {
    const { out } = await sluice(harness, line);
    assert.match(out, /^VOLUME KEPT +STATE +SUSPENDED +REMOVED AFTER\ndb\/data-group-b-7 +\S+ /m);
  }
  assert.doesNotMatch((await sluice(harness, "status -A -o json")).out, /"volumes": null/);
});

test("a missing right leaves out its part and is named, with code 1 only if no group is left to show", async () => {
  const harness = await new Harness().prepare();
  const without = (resource: string, line = "status") => {
    harness.interfere = (call) => {
      if (call.verb === "list" && call.resource === resource)
        throw refused(403, `User "u" cannot list resource "${resource}"`);
    };
    return sluice(harness, line);
  };
  const leases = await without("leases");
  assert.equal(leases.code, 0);
  assert.match(
    leases.out,
    /^NOT SHOWN groups with nothing but a ledger, ledgers\S*.*: .*cannot list resource "leases"$/m,
  );
  assert.match(leases.out, /^db\/group: working, /m);
  const budgets = await without("zoneawarepoddisruptionbudgets");
  assert.equal(budgets.code, 0);
  assert.match(budgets.out, /^NOT SHOWN groups of budgets: .*zoneawarepoddisruptionbudgets/m);
  assert.match(budgets.out, /^db\/group: working, /m);
  const pods = await without("pods");
  assert.equal(pods.code, 1);
  assert.match(pods.out, /^NOT SHOWN group db\/group: .*cannot list resource "pods"$/m);
  assert.equal((await without("pods", "status group")).code, 1);
  const sets = await without("statefulsets");
  assert.deepEqual([sets.code, sets.out], [1, ""]);
  assert.match(sets.err[0] ?? "", /^a right is missing: .*statefulsets/);
});

/** Watches for so many seconds of virtual time. */
async function watched(harness: Harness, seconds: number, line = "status -w", calls: object = {}) {
  const over = new AbortController();
  harness.timeline.after(seconds * 1_000, () => over.abort());
  return sluice(harness, line, harness.cluster, {}, { interrupted: () => over.signal, ...calls });
}

test("into a pipe -w prints a line for each change, and none while only time goes by", async () => {
  const harness = await new Harness().prepare();
  harness.timeline.after(60_000, () => writeVerdict(harness, "delete-refused"));
  harness.timeline.after(90_000, () => harness.writeLedger({ "sluice.dev/verdicts": "{}" }));
  const { code, out } = await watched(harness, 120);
  assert.equal(code, 0);
  const lines = out
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/^\S+Z /, ""));
  assert.equal(lines.length, 5, out);
  assert.match(lines[0] ?? "", /^db\/group: working, 0 of 4 updated, 4 ready$/);
  assert.match(lines[1] ?? "", /^needs you: db\/group-a: delete-refused: it waits\. To do: /);
  assert.match(lines[2] ?? "", /^db\/group: working, 0 of 4 updated, 4 ready; delete-refused: it waits$/);
  assert.equal(lines[3], "needs you no more: db/group-a: delete-refused");
  assert.match(lines[4] ?? "", /^db\/group: working/);
});

test("with -o json each change is one line with the whole document", async () => {
  const harness = await new Harness().prepare();
  harness.timeline.after(20_000, () => writeVerdict(harness, "delete-refused"));
  const { out } = await watched(harness, 40, "status -w -o json", { screen: () => ({ columns: 80, rows: 24 }) });
  const documents: Status[] = out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    documents.map(({ needsPerson }) => needsPerson.length),
    [0, 1],
  );
});

test("on a screen of 20 columns and 6 rows each drawing has at most 5 lines of 20 columns, and says how many more there are", async () => {
  const harness = await new Harness().prepare();
  await harness.run();
  const { out } = await watched(harness, 5, "status -w", { screen: () => ({ columns: 20, rows: 6 }) });
  const drawings = out.split("\u001b[H").slice(1);
  assert.equal(drawings.length, 3);
  for (const drawing of drawings) {
    assert.ok(drawing.endsWith("\u001b[J"));
    const lines = drawing.replaceAll("\u001b[K", "").replaceAll("\u001b[J", "").split("\n");
    assert.equal(lines.length, 5);
    assert.ok(
      lines.every((line) => line.length <= 20),
      drawing,
    );
    assert.match(lines[4] ?? "", /^… \d+ more lines$/);
  }
});

test("while the API server is away -w goes on, says since when, and shows the groups as they were", async () => {
  const harness = await new Harness().prepare();
  const away = new ClusterError({ code: 0, reason: "Timeout", message: "away", verb: "list", resource: "pods" });
  const set = (answer: () => void) => () => {
    harness.interfere = answer;
  };
  harness.timeline.after(
    10_000,
    set(() => {
      throw away;
    }),
  );
  harness.timeline.after(
    40_000,
    set(() => {}),
  );
  const { code, out } = await watched(harness, 60);
  assert.equal(code, 0);
  assert.match(out, /no answer of the API server since \d{4}-.+Z\n/);
  assert.match(out, /the API server answers again\n/);
  assert.doesNotMatch(out, /gone/);
  harness.interfere = () => {
    throw away;
  };
  const once = await sluice(harness, "status");
  assert.deepEqual([once.code, once.out, once.err], [1, "", ["the API server does not answer: away"]]);
});

test("a watched group that is deleted ends it with 1", async () => {
  const harness = await new Harness().prepare();
  harness.timeline.after(10_000, () => {
    for (const { metadata } of harness.world.store.list("statefulsets").items)
      harness.world.store.delete("statefulsets", { namespace, name: metadata.name });
    harness.world.store.delete("leases", ledgerKey);
  });
  const { code, err } = await watched(harness, 60, "status group -w");
  assert.equal(code, 1);
  assert.match(err.at(-1) ?? "", /^there is no group "group"/);
});

test("markup stays as it is, control and direction characters are escapes, and long names are whole", async () => {
  const harness = await new Harness().prepare();
  const at = harness.cluster.serverTimeMs();
  const hostile = "<b>\u001b[2J\u202e\u200b\nx";
  const verdict = { guard: "rolling", zone: second, sentence: `${hostile}${"y".repeat(253)}`, since: at, at };
  harness.writeLedger({ "sluice.dev/verdicts": JSON.stringify({ "advance-zone-rollout": verdict }) });
  const shown = `<b>\\u001b[2J\\u202e\\u200b\\u000ax${"y".repeat(253)}`;
  for (const line of ["status", "status -w"]) {
    const { out } = await watched(harness, 1, line);
    assert.ok(out.includes(shown), out);
    assert.doesNotMatch(out, /[^\P{C}\n]/u);
  }
});

test("2147483647 replicas are a few runs, and the LISTs of a namespace are shared by its groups", async () => {
  const harness = new Harness();
  for (let index = 0; index < 10; index++) addGroup(harness, `group-${index}`, namespace);
  const cluster = wrapCluster(harness.cluster, {
    async list(resource, query, options) {
      const list = await harness.cluster.list(resource, query, options);
      for (const { metadata, spec } of list.items as StatefulSetObject[])
        if (resource === "statefulsets" && metadata.name === first)
          Object.assign(spec ?? {}, { replicas: 2_147_483_647 });
      return list;
    },
  });
  harness.forget();
  const { out } = await sluice(harness, "status", cluster);
  assert.match(out, /^group-a +2\/2147483647 .+ missing: 2-2147483646$/m);
  assert.ok(harness.count("list statefulsets") <= 3, `${harness.count("list statefulsets")} LISTs`);
});

test("by the name of a group of another owner its volumes and what is named after the owner are shown, and nothing of others", async () => {
  const harness = await new Harness().prepare();
  createOwnedGroup(harness.world, namespace, ["a", "b"], 2);
  const suspended = { "sluice.dev/suspend-state": "Suspended", "sluice.dev/suspended-at": "2026-01-01T00:00:00Z" };
  const metadata = { labels: { "sluice.dev/suspended": "true" }, annotations: suspended };
  harness.world.store.patch("persistentvolumeclaims", { namespace, name: "a-1-data" }, { metadata } as never);
  for (const name of ["orders", "orders-storage-1", "orders2-storage-1", "group-a-0"])
    harness.world.store.create("events", namespace, {
      metadata: { name: `of-${name}` },
      ...{ reason: "SuspensionWaiting", message: "zones-down: it waits", source: { component: "sluice" } },
      ...{ involvedObject: { kind: "Pod", namespace, name }, lastTimestamp: new Date(0).toISOString() },
    });
  await harness.goOn(10_000);
  const { out } = await sluice(harness, `status ${ownerGroup} -o json`);
  const { volumes, events }: Status = JSON.parse(out);
  assert.deepEqual(
    volumes?.map(({ name, state }) => [name, state]),
    [["a-1-data", "Suspended"]],
  );
  assert.deepEqual(events?.map(({ object }) => object).sort(), ["orders", "orders-storage-1"]);
  const other: Status = JSON.parse((await sluice(harness, "status group -o json")).out);
  assert.deepEqual([other.volumes, other.events?.map(({ object }) => object)], [[], ["group-a-0"]]);
});
