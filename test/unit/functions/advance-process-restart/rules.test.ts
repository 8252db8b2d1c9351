/** The rules that a restart in its turn waits for, each with its message. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { claimOf as newClaim } from "../../../../functions/advance-process-restart/claims.ts";
import {
  type DatabaseAnswer,
  type DatabaseFacts,
  isMasterEligible,
  mayBeNext,
  type RuleGroup,
  refuseByRules,
} from "../../../../functions/advance-process-restart/decide-rules.ts";
import { databaseRules } from "../../../../functions/shared/annotations/restart.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import { claimOf, pod, reservation, zone, zoneBudget } from "../advance-zone-rollout/given.ts";
import { facts, group, managed, node } from "./given.ts";

interface Given {
  readonly zones?: readonly Zone[];
  readonly around?: Partial<RuleGroup>;
  readonly facts?: DatabaseFacts;
  readonly database?: DatabaseAnswer;
}

/** The guard and the message for `a-1` of the first zone. */
function refusal({ zones = [managed("a", "nnn")], around = {}, facts: known, database }: Given = {}): string {
  const [own] = zones as readonly [Zone];
  const pod = own.pods.find(({ ordinal }) => ordinal === 1) ?? assert.fail("no a-1");
  const answered = database ?? (known ? { kind: "known" as const, facts: known } : { kind: "none" as const });
  const whole = group({ zones, database: answered, ...around });
  const claim = newClaim("a", pod, { processId: "7 1", mountedSum: undefined, lastEpoch: 0 }, "rolling");
  const blocked = refuseByRules({ group: whole, zone: own, pod, claim });
  return blocked === undefined ? "" : `${blocked.guard}: ${blocked.message}`;
}

const budgets = (spec: Readonly<Record<string, unknown>>) => ({
  surroundings: { workloads: [], neighbours: [], budgets: [zoneBudget("limit", spec)] },
});

suite("the pod and the ledger", () => {
  const cases: readonly (readonly [string, Given, RegExp | ""])[] = [
    ["nothing is in the way", {}, ""],
    ["another zone is not whole", { zones: [managed("a", "nnn"), zone("b", "nx")] }, /^zones-down: b: 1 of 2 down/],
    [
      "another zone is claimed",
      { zones: [managed("a", "nnn"), zone("b", "n", { claims: [claimOf("b:0", "node")] })] },
      /^zone-losing-node: /,
    ],
    [
      "the zone has its limit down",
      { zones: [managed("a", "xnn")] },
      /^budget: a: 1 of 3 down \(1 not ready\), 1 may be/,
    ],
    ["the zone may have more down", { zones: [managed("a", "xnn", { maxUnavailable: 2 })] }, ""],
    [
      "a budget allows less than the zone",
      { zones: [managed("a", "xnn", { maxUnavailable: 2 })], around: budgets({ maxUnavailable: 1 }) },
      /^budget: .* 1 may be/,
    ],
    [
      "a budget allows more than the zone",
      { zones: [managed("a", "xnn")], around: budgets({ maxUnavailable: 2 }) },
      /^budget: .* 1 may be/,
    ],
    [
      "a budget allows as many as the zone",
      { zones: [managed("a", "xnn")], around: budgets({ maxUnavailable: 1 }) },
      /^budget: a: 1 of 3 down \(1 not ready\), 1 may be, and 1 more would be$/,
    ],
    ["a budget is invalid", { around: budgets({ maxUnavailable: "some" }) }, /^invalid-budget: /],
    ["a zone has left the group", { around: { departed: [reservation("c-0")] } }, /^zone-departed: c-0 is reserved/],
    [
      "another claim in the zone",
      { zones: [managed("a", "nnn", { maxUnavailable: 2, claims: [claimOf("a:1", "node")] })] },
      /^zone-losing-node: /,
    ],
    [
      "a question cannot be asked",
      { zones: [managed("a", "nnn", { question: { ask: undefined, malformed: [], unknown: "stay" } } as never)] },
      /^question-malformed: /,
    ],
    ["a rollout is due", { zones: [managed("a", "non")] }, /^rollout-due: a-1 waits: a rollout is to replace it/],
    [
      "the wanted revision is not known",
      { zones: [managed("a", "nnn", { updateRevision: undefined })] },
      /^rollout-due: .* has not caught up/,
    ],
    [
      "neither revision is known",
      { zones: [managed("a", "n.n", { updateRevision: undefined, extra: [pod("a-1", { revision: undefined })] })] },
      /^rollout-due: .* has not caught up/,
    ],
    ["the rollout is paused", { zones: [managed("a", "non", { paused: true })] }, ""],
  ];
  for (const [what, given, expected] of cases)
    test(`${what}: ${expected === "" ? "the process may restart" : "it waits"}`, () => {
      if (expected === "") assert.equal(refusal(given), "");
      else assert.match(refusal(given), expected);
    });

  test("a pod that is terminating waits, and one that is down takes nothing from any budget", () => {
    assert.match(refusal({ zones: [managed("a", "ntn")] }), /^pod-terminating: a-1 is on its way out/);
    assert.equal(refusal({ zones: [managed("a", "xwx"), zone("b", "x")] }), "");
  });
});

test("the first pod alone may be next, unless it is down and waits for its rollout: then others that are down may be", () => {
  const next = (drawing: string, more = {}) => {
    const own = managed("a", drawing, more);
    const waiting = own.pods.map((pod) => ({ zone: own, pod }));
    return mayBeNext(group({ zones: [own] }), waiting).map(({ pod }) => pod.name);
  };
  assert.deepEqual(next("wwn"), ["a-0"], "no rollout is due");
  assert.deepEqual(next("own"), ["a-0"], "it is not down");
  assert.deepEqual(next("xwn"), ["a-0", "a-1"]);
  assert.deepEqual(next("xwn", { paused: true }), ["a-0"], "the rollout is paused");
  assert.deepEqual(next(""), []);
});

const three = [node("a-0"), node("a-1"), node("a-2")];
const copy = (shard: string, name: string | undefined, isPrimary = false, state = "STARTED") => ({
  ...{ shard, isPrimary, state },
  node: name === undefined ? undefined : `node-${name}`,
});

suite("the database", () => {
  const settled: readonly (readonly [string, Partial<DatabaseFacts>, RegExp | ""])[] = [
    ["yellow and settled", {}, ""],
    ["green, whatever moves", { health: "green", relocating: 2, allocation: "primaries" }, ""],
    ["red", { health: "red" }, /^database-settled: a-1 waits: the database is red$/],
    ["its tasks wait", { isBusy: true }, /^database-settled: .* is yellow, and tasks of its cluster wait$/],
    ["shards relocate", { relocating: 1 }, /^database-settled: .* 1 shards relocate$/],
    ["shards initialise", { initializing: 1 }, /^database-settled: .* 1 shards initialise$/],
    ["shards are delayed", { delayed: 1 }, /^database-settled: .* 1 shards wait for a node/],
    ["reads are under way", { inFlight: 1 }, /^database-settled: .* 1 reads of shards/],
    ["allocation is off", { allocation: "primaries" }, /^database-settled: .* allocation is primaries$/],
    [
      "a node is missing",
      { nodes: three.slice(1) },
      /^database-settled: .* 2 nodes are members, and 3 pods are wanted$/,
    ],
    ["the first of two reasons", { relocating: 1, delayed: 1 }, /^database-settled: .* 1 shards relocate$/],
  ];
  for (const [what, changes, expected] of settled)
    test(`database-settled: ${what}`, () => {
      if (expected === "") assert.equal(refusal({ facts: facts(three, changes) }), "");
      else assert.match(refusal({ facts: facts(three, changes) }), expected);
    });

  const copies: readonly (readonly [string, DatabaseFacts["copies"], boolean])[] = [
    ["a primary with a started copy", [copy("logs 0", "a-1", true), copy("logs 0", "a-2")], true],
    [
      "a primary with a copy that relocates",
      [copy("logs 0", "a-1", true), copy("logs 0", "a-2", false, "RELOCATING")],
      true,
    ],
    ["a primary without replicas", [copy("logs 0", "a-1", true), copy("logs 1", "a-2")], true],
    [
      "a primary whose copy is not assigned",
      [copy("logs 0", "a-1", true), copy("logs 0", undefined, false, "UNASSIGNED")],
      false,
    ],
    [
      "a primary whose copy initialises",
      [copy("logs 0", "a-1", true), copy("logs 0", "a-2", false, "INITIALIZING")],
      false,
    ],
    [
      "the second of two primaries",
      [copy("x 0", "a-1", true), copy("logs 0", "a-1", true), copy("logs 0", undefined)],
      false,
    ],
    [
      "the first of two primaries without another copy",
      [copy("logs 0", "a-1", true), copy("x 0", "a-1", true), copy("logs 0", undefined), copy("x 0", undefined)],
      false,
    ],
    ["a primary whose copy is on the same node", [copy("logs 0", "a-1", true), copy("logs 0", "a-1")], false],
    [
      "a primary with one of two copies",
      [copy("logs 0", "a-1", true), copy("logs 0", undefined, false, "UNASSIGNED"), copy("logs 0", "a-2")],
      true,
    ],
    ["a primary of another pod", [copy("logs 0", "a-0", true), copy("logs 0", undefined)], true],
    ["a replica", [copy("logs 0", "a-1"), copy("logs 0", undefined, true)], true],
  ];
  for (const [what, found, may] of copies)
    test(`started-copy: ${what} ${may ? "may" : "may not"} go`, () => {
      const refused = refusal({ facts: facts(three, { copies: found }) });
      assert.equal(refused, may ? "" : "started-copy: a-1 waits: it has the last whole copy of the shard logs 0");
      assert.equal(refusal({ facts: facts(three, { copies: found, health: "green" }) }), "", "a green database");
    });

  test("started-copy: the only pod of a group may go", () => {
    const one = managed("a", "n", { start: 1 } as never);
    const lost = [copy("logs 0", "a-1", true), copy("logs 0", undefined)];
    assert.equal(refusal({ zones: [one], facts: facts([node("a-1")], { copies: lost }) }), "");
  });

  test("started-copy: a pod whose node is no member has no primary, not even one that is not assigned", () => {
    const lost = [copy("logs 0", undefined, true), copy("logs 0", undefined)];
    const own = managed("a", "nnn", { unchecked: new Set(["database-settled", "masters-whole"]) });
    assert.equal(refusal({ zones: [own], facts: facts([node("a-0"), node("a-2")], { copies: lost }) }), "");
  });

  test("masters-whole: a pod that is eligible as master waits until every such pod is a member", () => {
    const green = { health: "green" } as const;
    const [a, b] = [managed("a", "nnn"), managed("b", "nn")];
    const of = (...nodes: readonly ReturnType<typeof node>[]) => refusal({ zones: [a, b], facts: facts(nodes, green) });
    const data = [node("b-0", "data"), node("b-1", "data")];
    assert.equal(of(...three, ...data), "");
    assert.equal(of(...three, node("b-0", "data")), "", "a data node is missing");
    const why = "it is eligible as master, and of 3 such pods of a 2 are members of the database";
    assert.equal(of(node("a-1"), node("a-2"), ...data), `masters-whole: a-1 waits: ${why}`);
    assert.match(of(node("a-1", "cluster_manager,data"), node("a-2"), ...data), /^masters-whole: /);
    assert.equal(of(node("a-1", "data"), node("a-2", "data"), ...data), "", "it is not eligible itself");
    assert.match(of(...three, node("c-0", "data")), /^masters-whole: .* of 2 such pods of b 0 are members/);
    assert.match(of(node("b-0"), node("b-1")), /^masters-whole: .* of 3 such pods of a 0 are members/);
    assert.match(
      of(node("a-0"), node("a-2"), ...data),
      /^masters-whole: .* of 3 such pods of a 2/,
      "its own node is away",
    );
    assert.equal(
      of(...three.map((one) => ({ ...one, roles: ["data"] })), node("b-0")),
      "",
      "a master is missing, and it is none",
    );
    assert.match(
      of(node("a-1"), node("b-0")),
      /^masters-whole: .* such pods of a 1 are/,
      "the first StatefulSet is named",
    );
  });

  test("the roles of a StatefulSet's other nodes show whether a pod without a node is eligible as master", () => {
    const own = managed("a", "nnn");
    const [, pod] = own.pods;
    const eligible = (...nodes: readonly ReturnType<typeof node>[]) =>
      isMasterEligible({ zone: own, pod: pod as never, facts: facts(nodes) });
    assert.equal(eligible(node("a-1", "data"), node("a-0")), false, "its own node counts");
    assert.equal(eligible(node("a-0", "data"), node("b-0")), false);
    assert.equal(eligible(node("a-0")), true);
    assert.equal(eligible(node("a-0"), node("a-2", "data")), true, "one of them is eligible");
    assert.equal(eligible(node("b-0", "data")), true, "nothing is known of it");
  });

  test("role-elsewhere: for each role another available member has it, or no other member does", () => {
    const green = { health: "green" } as const;
    const of = (drawing: string, ...roles: readonly string[]) =>
      refusal({
        zones: [managed("a", drawing, { maxUnavailable: 3 })],
        facts: facts(
          roles.map((role, ordinal) => node(`a-${ordinal}`, role)),
          green,
        ),
      });
    assert.equal(of("nnn", "data", "data,ingest", "data"), "", "no other node has the role");
    assert.equal(of("nnn", "data", "data,ingest", "ingest"), "");
    assert.equal(
      of("nnw", "data", "data,ingest", "ingest"),
      "role-elsewhere: a-1 waits: no other node with the role ingest is available",
    );
    assert.equal(of("nnw", "data", "master,data", "master"), "", "masters have a rule of their own");
    assert.match(of("nnw", "data", "ingest,ml", "ml,ingest"), / the role ingest is available$/, "the first one");
    const elsewhere = { name: "node-elsewhere", pod: undefined, roles: ["ingest"] };
    const known = facts([node("a-0", "data"), node("a-1", "data,ingest"), node("a-2", "ingest"), elsewhere], green);
    assert.equal(
      refusal({ zones: [managed("a", "nnw", { maxUnavailable: 3 })], facts: known }),
      "",
      "a node that is no pod",
    );
    const unchecked = new Set(databaseRules.filter((rule) => rule !== "role-elsewhere"));
    assert.equal(refusal({ zones: [managed("a", "nnn", { unchecked })], facts: facts([]) }), "", "it has no node");
  });

  test("database-unknown: a database that gives no answer is waited for, and none that is not named", () => {
    const database = { kind: "unknown", why: "GET /_cluster/health: it answered 503" } as const;
    const why = "database-unknown: a-1 waits until the database answers: GET /_cluster/health: it answered 503";
    assert.equal(refusal({ database }), why);
    assert.equal(refusal({ database }).split(":")[0], "database-unknown");
    const unchecked = new Set(databaseRules);
    assert.equal(refusal({ database, zones: [managed("a", "nnn", { unchecked })] }), "", "no rule asks for it");
    assert.equal(refusal({ database, zones: [managed("a", "nwn")] }), "", "a pod that is down");
  });

  test("a rule that is switched off does not count, and the others do", () => {
    const broken = facts(three.slice(1), { copies: [copy("logs 0", "a-1", true), copy("logs 0", undefined)] });
    const without = (...unchecked: readonly (typeof databaseRules)[number][]) =>
      refusal({ zones: [managed("a", "nnn", { unchecked: new Set(unchecked) })], facts: broken }).replace(/:.*/, "");
    assert.equal(without(), "database-settled");
    assert.equal(without("database-settled"), "started-copy");
    assert.equal(without("database-settled", "started-copy"), "masters-whole");
    assert.equal(without("database-settled", "started-copy", "masters-whole"), "");
  });

  test("a pod that is not available passes each rule about the database", () => {
    const red = facts([], { health: "red" });
    assert.match(refusal({ facts: red }), /^database-settled/);
    assert.equal(refusal({ zones: [managed("a", "nwn")], facts: red }), "");
  });
});
