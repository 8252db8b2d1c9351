/** Which pods may be evicted, and which guard refuses the others, under budgets of zones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Alone, decideAlone } from "../../../../functions/evaluate-eviction/decide-alone.ts";
import { renewForMs, yieldMs } from "../../../../functions/shared/ledger/renewals.ts";
import type { Refusal } from "../../../../functions/shared/ledger/reservation.ts";
import { claimOf, nowMs, pod, reservation, statefulSet, zone, zoneBudget } from "../advance-zone-rollout/given.ts";
import { disruptionBudget, guards, refusal, rule } from "./given-evictions.ts";

const whole = [zone("a", "ooo"), zone("b", "ooo")];

test("allowed: a pod of a whole group goes, and is reserved by its uid", () => {
  const [decision] = rule(whole, [{ name: "a-1", pin: [{ op: "add" }] }]);
  assert.deepEqual(decision, {
    answer: { allowed: true, guard: "allowed", warnings: [], zone: "a", patch: [{ op: "add" }] },
    reserve: { statefulSet: "a", ordinal: 1, uid: "uid-of-a-1" },
  });
});

test("zone-budget: as many pods of a zone may be down as the budget allows, whatever the cause", () => {
  for (const drawing of ["o.oo", "oxoo", "otoo", "oboo", "owoo"]) {
    const zones = [zone("a", drawing), zone("b", "oooo")];
    assert.deepEqual(guards(zones, ["a-0"]), ["zone-budget"], drawing);
    assert.deepEqual(guards(zones, ["a-0"], { budget: { maxUnavailable: 2 } }), ["allowed"], drawing);
  }
  const zones = [zone("a", "o.xtoo"), zone("b", "oooooo")];
  const answer = refusal(zones, "a-0", { budget: { maxUnavailable: 3 } });
  assert.equal(answer.message, "2 pods not ready, 1 pod unknown in a: 3 may be down, so a-0 stays until one is back");
  assert.deepEqual([answer.code, answer.reason, answer.cause], [429, "TooManyRequests", "DisruptionBudget"]);
  assert.equal(answer.zone, "a");
  assert.deepEqual(guards(zones, ["a-0"], { budget: { maxUnavailable: 4 } }), ["allowed"]);
});

test("the pod's own place is not counted: a pod that is already down may go at no further cost (R14)", () => {
  for (const drawing of ["xoo", "boo", "woo"]) {
    assert.deepEqual(guards([zone("a", drawing), zone("b", "ooo")], ["a-0"]), ["allowed"], drawing);
  }
  assert.deepEqual(guards([zone("a", "xxo"), zone("b", "ooo")], ["a-0"]), ["zone-budget"]);
});

test("a pod that is not ready is decided like any other: it is exempt only when it has ended (R14)", () => {
  const pending = zone("a", "o..", { extra: [pod("a-1", { pending: true, readySinceMs: undefined })] });
  assert.deepEqual(guards([pending, zone("b", "ooo")], ["a-1"]), ["zone-budget"]);
  assert.deepEqual(guards([zone("a", "xoo"), zone("b", "oxo")], ["a-0"]), ["zones-down"]);
});

test("exempt: a pod that has ended or is terminating goes whatever the budget says, and reserves nothing", () => {
  const failed = zone("a", ".oo", { extra: [pod("a-0", { finished: true, readySinceMs: undefined })] });
  const pin = [{ op: "add" }];
  for (const own of [failed, zone("a", "too")]) {
    const [decision] = rule([own, zone("b", "xxx")], [{ name: "a-0", pin }], { budget: { maxUnavailable: 0 } });
    assert.deepEqual(decision?.answer.guard, "exempt");
    assert.deepEqual(
      decision?.answer.allowed && decision.answer.patch,
      pin,
      "this pod, and not one that may have come since",
    );
    assert.match(
      String(decision?.answer.allowed && decision.answer.warnings),
      /^pod is not ready: a-0 (has ended|is terminating)/,
    );
    assert.equal(decision?.reserve, undefined);
    const unpinned = [{ name: "a-0", isPinned: false }];
    const guard = own === failed ? "pod-unseen" : "pod-leaving";
    assert.deepEqual(guards([own, zone("b", "xxx")], unpinned), [guard], "the API server is asked first");
  }
});

test("zones-down: no pod goes while another zone is not whole, however much its own may lose", () => {
  for (const [drawing, count] of [
    ["o.o", "1 pod unknown"],
    ["oxo", "1 pod not ready"],
    ["oto", "1 pod not ready"],
    [".x.", "1 pod not ready, 2 pods unknown"],
  ] as const) {
    const zones = [zone("a", "ooo"), zone("b", drawing), zone("c", "ooo")];
    const answer = refusal(zones, "a-0", { budget: { maxUnavailable: 3 } });
    assert.equal(answer.guard, "zones-down");
    assert.equal(answer.message, `${count} in b: no pod of a goes until that zone is whole`);
    assert.equal(answer.code, 429);
    assert.deepEqual(guards(zones, ["b-0"], { budget: { maxUnavailable: 3 } }), [
      drawing[0] === "." ? "pod-unseen" : "allowed",
    ]);
  }
});

test("pods that are being scaled away leave their zone unsettled, and count in their own while they are not ready", () => {
  const shrinking = zone("b", "ooo", { extra: [pod("b-3")] });
  const answer = refusal([zone("a", "ooo"), shrinking], "a-0");
  assert.equal(answer.message, "1 pod not ready in b: no pod of a goes until that zone is whole");
  assert.deepEqual(guards([zone("a", "ooo"), shrinking], ["b-0"]), ["allowed"]);
  const broken = zone("b", "ooo", { extra: [pod("b-3", { readySinceMs: undefined })] });
  assert.deepEqual(guards([zone("a", "ooo"), broken], ["b-0", "b-3"]), ["zone-budget", "allowed"]);
  const both = zone("b", "oox", { extra: [pod("b-3")] });
  assert.match(refusal([zone("a", "ooo"), both], "a-0").message, /^1 pod not ready in b:/);
});

test("a pod that is being scaled away counts once, and is ready only after minReadySeconds", () => {
  const broken = [pod("b-3", { readySinceMs: undefined })];
  const reserved = [reservation("b-3")];
  const zones = [zone("a", "ooo"), zone("b", "ooo", { extra: broken, reserved })];
  assert.deepEqual(guards(zones, ["b-0"], { budget: { maxUnavailable: 2 } }), ["allowed"]);
  assert.deepEqual(guards(zones, ["b-0"]), ["zone-budget"]);
  for (const [forMs, guard] of [
    [29_000, "zone-budget"],
    [30_000, "allowed"],
  ] as const) {
    const extra = [pod("b-3", { readySinceMs: nowMs - forMs })];
    const settling = zone("b", "ooo", { extra, minReadySeconds: 30 });
    assert.deepEqual(guards([zone("a", "ooo"), settling], ["b-0"]), [guard]);
  }
});

test("an eviction counts the reservations of every function, not only its own", () => {
  const reserved = [reservation("a-1", { by: "advance-zone-rollout" })];
  const zones = [zone("a", "ooo", { reserved }), zone("b", "ooo")];
  assert.deepEqual(guards(zones, ["a-0"]), ["zone-budget"]);
  assert.deepEqual(guards(zones, ["b-0"]), ["zones-down"]);
  assert.deepEqual(guards(zones, ["a-1"]), ["allowed"], "the pod itself is reserved anew (R12)");
  assert.deepEqual(guards(zones, ["a-0"], { budget: { maxUnavailable: 2 } }), ["allowed"]);
});

test("zone-departed: a reserved pod whose StatefulSet has left the group blocks every zone", () => {
  const answer = refusal(whole, "a-0", { departed: [reservation("z-3")], budget: { maxUnavailable: 3 } });
  assert.deepEqual([answer.guard, answer.code], ["zone-departed", 429]);
  assert.match(answer.message, /^1 pod not ready in z: z-3 is reserved, but its StatefulSet has left the group/);
});

test("zone-departed: an orphaned pod that is down blocks every zone, or its partition", () => {
  const departed = [{ statefulSet: "z", ordinal: 1, isLeft: true }] as const;
  const answer = refusal(whole, "a-0", { departed, budget: { maxUnavailable: 3 } });
  assert.deepEqual([answer.guard, answer.code], ["zone-departed", 429]);
  assert.match(
    answer.message,
    /^1 pod not ready in z: z-1 is not ready, and its StatefulSet z is gone; .* make z again/,
  );
  const budget = { maxUnavailable: 1, podNamePartitionRegex: "[a-z]+-([0-9]+)" };
  assert.deepEqual(guards(whole, ["a-0", "a-1"], { departed, budget }), ["allowed", "partition-budget"]);
});

test("a percentage of the replicas is taken of the smaller of the wanted and counted ones, rounded down, and is at least one", () => {
  const drawn = (down: number) => [zone("a", "x".repeat(down) + "o".repeat(10 - down)), zone("b", "o".repeat(10))];
  for (const [percent, allowed] of [
    [1, 1],
    [19, 1],
    [20, 2],
    [29, 2],
    [100, 10],
  ] as const) {
    const budget = { maxUnavailablePercentage: percent };
    assert.deepEqual(guards(drawn(allowed - 1), ["a-9"], { budget }), ["allowed"], `${percent}%`);
    if (allowed < 10) assert.deepEqual(guards(drawn(allowed), ["a-9"], { budget }), ["zone-budget"], `${percent}%`);
  }
  const counted = [zone("a", "xooooooooo", { countedReplicas: 4 }), zone("b", "o")];
  assert.deepEqual(guards(counted, ["a-9"], { budget: { maxUnavailablePercentage: 25 } }), ["zone-budget"]);
});

test("a pod that is left of a zone scaled to zero is decided by a percentage that allows one, and not refused for good (R24)", () => {
  const left = [zone("a", "", { extra: [pod("a-0")] }), zone("b", "")];
  assert.deepEqual(guards(left, ["a-0"], { budget: { maxUnavailablePercentage: 10 } }), ["allowed"]);
  const both = [zone("a", "", { extra: [pod("a-0"), pod("a-1")] }), zone("b", "")];
  assert.deepEqual(guards(both, ["a-0", "a-1"], { budget: { maxUnavailablePercentage: 10 } }), [
    "allowed",
    "zone-budget",
  ]);
  for (const budget of [{ maxUnavailablePercentage: 0 }, { maxUnavailable: 0 }]) {
    assert.deepEqual(guards(left, ["a-0"], { budget }), ["never-possible"], "a budget of nothing is a word");
  }
});

test("max-unavailable-zero: a percentage of no replicas is a 403 for a wanted pod, until its controller has counted them", () => {
  const uncounted = [zone("a", "ooo", { countedReplicas: 0 }), zone("b", "ooo")];
  const answer = refusal(uncounted, "a-0", { budget: { maxUnavailablePercentage: 100 } });
  assert.deepEqual(
    [answer.guard, answer.code, answer.reason, answer.cause],
    ["max-unavailable-zero", 403, "Forbidden", ""],
  );
  assert.equal(
    answer.message,
    "max unavailable = 0: the budget budget allows a share of the pods of a, and its controller has counted none of them yet",
  );
});

test("never-possible: a budget that allows nothing is a 403 at once, whatever else the pod would wait for (R25)", () => {
  const claims = [claimOf("a:1", "scale-down")];
  for (const zones of [whole, [zone("a", "ooo")], [zone("a", "ooo", { claims }), zone("b", "xxx")]]) {
    for (const [budget, field] of [
      [{ maxUnavailable: 0 }, "maxUnavailable"],
      [{ maxUnavailablePercentage: 0 }, "maxUnavailablePercentage"],
    ] as const) {
      const answer = refusal(zones, "a-0", { budget });
      assert.deepEqual(
        [answer.guard, answer.code, answer.reason, answer.cause],
        ["never-possible", 403, "Forbidden", ""],
      );
      assert.equal(
        answer.message,
        `max unavailable = 0: the budget budget has ${field} 0, so it never lets a pod be evicted: raise it when pods may go`,
      );
    }
  }
});

test("never-possible: a PodDisruptionBudget that wants all of its pods healthy is reported at once, with the numbers (R25)", () => {
  const all = { disruptionsAllowed: 0, currentHealthy: 6, desiredHealthy: 6, expectedPods: 6 };
  const disruptionBudgets = [disruptionBudget("pdb", {}, all)];
  for (const zones of [whole, [zone("a", "ooo"), zone("b", "xxx")]]) {
    const answer = refusal(zones, "a-0", { disruptionBudgets });
    assert.deepEqual([answer.guard, answer.code, answer.cause], ["never-possible", 429, "DisruptionBudget"]);
    assert.match(answer.message, /^a-0 stays: PodDisruptionBudget pdb wants 6 of its 6 pods healthy, so it never lets/);
  }
  const some = [disruptionBudget("pdb", {}, { ...all, desiredHealthy: 5, currentHealthy: 5 })];
  assert.deepEqual(guards(whole, ["a-0"], { disruptionBudgets: some }), ["pod-disruption-budget"]);
  const free = [disruptionBudget("pdb", {}, { ...all, disruptionsAllowed: 1 })];
  assert.deepEqual(guards(whole, ["a-0"], { disruptionBudgets: free }), ["allowed"]);
});

test("never-possible: a pod that two PodDisruptionBudgets select is refused at once, with both names (R25)", () => {
  const free = { disruptionsAllowed: 3, currentHealthy: 3, desiredHealthy: 1 };
  const disruptionBudgets = [disruptionBudget("one", {}, free), disruptionBudget("two", {}, free)];
  for (const zones of [whole, [zone("a", "oxo"), zone("b", "oxo")]]) {
    const answer = refusal(zones, "a-0", { disruptionBudgets });
    assert.deepEqual([answer.guard, answer.code, answer.curedInMs], ["never-possible", 429, undefined]);
    assert.match(
      answer.message,
      /^a-0 stays: the PodDisruptionBudgets one and two both select it, .+ change the selector/,
    );
  }
});

test("absent pods come back: a number can never be met only if it is all wanted pods, including the neighbours' (R25)", () => {
  const away = { disruptionsAllowed: 0, currentHealthy: 5, desiredHealthy: 5, expectedPods: 5 };
  const disruptionBudgets = [disruptionBudget("pdb", { minAvailable: 5 }, away)];
  assert.deepEqual(guards(whole, ["a-0"], { disruptionBudgets }), ["pod-disruption-budget"]);
  const six = [disruptionBudget("pdb", { minAvailable: 6 }, away)];
  assert.deepEqual(guards(whole, ["a-0"], { disruptionBudgets: six }), ["never-possible"]);
  const neighbours = [statefulSet("c", { replicas: 1, podLabels: { app: "other" } })];
  assert.deepEqual(guards(whole, ["a-0"], { disruptionBudgets: six, neighbours }), ["pod-disruption-budget"]);
});

test("a pod that is left of a zone without replicas may go within a number", () => {
  const zones = [zone("a", "", { extra: [pod("a-0")] }), zone("b", "")];
  assert.deepEqual(guards(zones, ["a-0"], { budget: { maxUnavailable: 1 } }), ["allowed"]);
});

test("without both fields one pod may be down", () => {
  assert.deepEqual(guards(whole, ["a-0", "a-1"], { budget: {} }), ["allowed", "zone-budget"]);
});

test("too-few-zones: a group of one StatefulSet is a 400, with rollout-operator's message", () => {
  const answer = refusal([zone("a", "ooo")], "a-0");
  assert.deepEqual([answer.guard, answer.code, answer.cause], ["too-few-zones", 400, ""]);
  assert.match(answer.message, /^minimum number of StatefulSets not found: the budget budget needs two zones or more/);
});

test("pod-unseen: a pod that the view does not have, or has under another uid, is a 429", () => {
  for (const question of ["a-7", "c-0", "nonsense", { name: "a-0", uid: "another" }]) {
    const answer = refusal(whole, question);
    assert.deepEqual([answer.guard, answer.code], ["pod-unseen", 429]);
  }
});

test("a zone whose name is the prefix of another's is not mistaken for it", () => {
  const zones = [zone("a", "o"), zone("a-0", "o")];
  assert.deepEqual(rule(zones, ["a-0-0"])[0]?.reserve, { statefulSet: "a-0", ordinal: 0, uid: "uid-of-a-0-0" });
});

/** A pod with a reservation that was renewed for too long, and could have been dropped this long ago. */
function givenUp(name: string, agoMs: number): [string, Refusal] {
  const uid = `uid-of-${name}`;
  return [uid, { uid, pod: name, message: `${name} was given up`, stampMs: nowMs - agoMs, by: "evaluate-eviction" }];
}

test("eviction-not-carried-out: a pod that was renewed for a minute, or is given up, is refused before its budget is read", () => {
  const renewed = (sinceMs: number) => [
    reservation("a-0", { stampMs: nowMs - 5_000, sinceMs: nowMs - 5_000 - sinceMs }),
  ];
  const zones = (sinceMs: number) => [zone("a", "ooo", { reserved: renewed(sinceMs) }), zone("b", "ooo")];
  assert.deepEqual(guards(zones(renewForMs - 1), ["a-0"]), ["allowed"]);
  const answer = refusal(zones(renewForMs), "a-0");
  assert.deepEqual([answer.guard, answer.code, answer.zone], ["eviction-not-carried-out", 429, "a"]);
  assert.match(answer.message, /^a-0 was allowed to go again and again for 60 s, and is still there: /);
  const another = [zone("a", "ooo", { reserved: renewed(renewForMs).map((one) => ({ ...one, uid: "before" })) })];
  assert.deepEqual(guards([...another, zone("b", "ooo")], ["a-0"]), ["allowed"], "another pod of that name");
  const down = [zone("a", "oxo"), zone("b", "oxo")];
  assert.deepEqual(guards(down, ["a-0", "a-2"], { givenUp: new Map([givenUp("a-0", 0)]) }), [
    "eviction-not-carried-out",
    "zones-down",
  ]);
});

test("rollout-first: for a minute after a pod was given up, no other pod goes before a rollout that has work", () => {
  const after = (agoMs: number) => ({ givenUp: new Map([givenUp("a-1", agoMs)]) });
  const outdated = [zone("a", "ooo"), zone("b", "nno")];
  const rolled = [zone("a", "nnn"), zone("b", "nnn")];
  const answer = refusal(outdated, "a-0", after(20_000));
  assert.deepEqual([answer.guard, answer.code, answer.zone], ["rollout-first", 429, "a"]);
  assert.equal(
    answer.message,
    "something behind Sluice refused the evictions of a-1, so the rollout of its group goes first for 40 s more; a-0 may go then",
  );
  assert.deepEqual(guards(outdated, ["a-0"], after(yieldMs - 1)), ["rollout-first"]);
  assert.deepEqual(guards(outdated, ["a-0"], after(yieldMs)), ["allowed"]);
  assert.deepEqual(guards(rolled, ["a-0"], after(0)), ["allowed"]);
  assert.deepEqual(guards([zone("a", "nnn"), zone("b", "ooo", { paused: true })], ["a-0"], after(0)), ["allowed"]);
  const own = [zone("a", "ooo", { reserved: [reservation("a-0")] }), zone("b", "ooo")];
  assert.deepEqual(
    guards(own, ["a-0"], after(0)),
    ["allowed"],
    "a pod that is reserved already takes no other pod's turn",
  );
});

test("pod-disruption-budget: what the API server would refuse after us is refused at once, and not reserved (R15)", () => {
  const answer = refusal(whole, "a-0", { disruptionBudgets: [disruptionBudget("pdb")] });
  assert.deepEqual([answer.guard, answer.code], ["pod-disruption-budget", 429]);
  assert.match(answer.message, /^pod a-0 could go within its zone's budget, but PodDisruptionBudget pdb allows no/);
  const free = [disruptionBudget("pdb", {}, { disruptionsAllowed: 1 })];
  assert.deepEqual(guards(whole, ["a-0"], { disruptionBudgets: free }), ["allowed"]);
  const others = [disruptionBudget("pdb", { selector: { matchLabels: { name: "b" } } })];
  assert.deepEqual(guards(whole, ["a-0", "b-0"], { disruptionBudgets: others }), ["allowed", "zones-down"]);
});

test("a zone's own budget is named before a PodDisruptionBudget's", () => {
  assert.deepEqual(
    guards([zone("a", "oxo"), zone("b", "ooo")], ["a-0"], { disruptionBudgets: [disruptionBudget("p")] }),
    ["zone-budget"],
  );
});

test("ledger-full: with no room for a reservation a pod goes only if it has one (R2)", () => {
  const zones = [zone("a", "oooo", { reserved: [reservation("a-3")] }), zone("b", "oooo")];
  const changes = { room: 1, budget: { maxUnavailable: 4 } };
  assert.deepEqual(guards(zones, ["a-0", "a-3", "a-1"], changes), ["allowed", "allowed", "ledger-full"]);
  assert.deepEqual(guards(zones, ["a-3", "a-0", "a-1"], changes), ["allowed", "allowed", "ledger-full"]);
  assert.equal(refusal(zones, "a-0", { ...changes, room: 0 }).code, 429);
});

test("several-budgets, invalid-budget, budget-spans-groups: budgets that no function can keep permit nothing", () => {
  const one = zoneBudget("one", {});
  const broken = zoneBudget("broken", { maxUnavailable: -1 });
  const foreign = statefulSet("x", { group: "other", podLabels: { "rollout-group": "other", app: "db" } });
  const wide = zoneBudget("wide", { selector: { matchLabels: {} } });
  for (const [guard, code, field, changes, text] of [
    ["several-budgets", 400, "", { budgets: [one, zoneBudget("two", {})] }, /one and two all select pod a-0/],
    ["invalid-budget", 429, "spec.maxUnavailable", { budgets: [broken] }, /broken, which may govern .+ is -1: write/],
    ["budget-spans-groups", 429, "spec.selector", { budgets: [wide], neighbours: [foreign] }, /wide .+ and x of/],
  ] as const) {
    const answer = refusal(whole, "a-0", changes);
    assert.deepEqual([answer.guard, answer.code, answer.field, answer.zone], [guard, code, field, "a"]);
    assert.match(answer.message, text);
  }
});

test("out-of-scope: a pod that no budget selects goes without a reservation", () => {
  const [decision] = rule(whole, ["a-0"], { budgets: [] });
  assert.deepEqual([decision?.answer.guard, decision?.reserve], ["out-of-scope", undefined]);
});

const eviction = { name: "a-0", uid: "uid-of-a-0", isPinned: true, pin: [{ op: "add" }] };

function alone(changes: Partial<Alone> & { readonly budgets?: Alone["surroundings"]["budgets"] } = {}) {
  const { budgets = [zoneBudget("budget", {})], ...rest } = changes;
  const surroundings = { workloads: [], neighbours: [], budgets };
  return decideAlone({ eviction, pod: pod("a-0"), owner: statefulSet("a"), surroundings, claims: [], ...rest });
}

test("which ledger decides: that of the pod's rollout-group, otherwise that of its budget (R1)", () => {
  assert.deepEqual(alone(), { namespace: "db", group: "group" });
  assert.deepEqual(alone({ owner: statefulSet("a", { group: undefined }) }), {
    namespace: "db",
    group: "budget:budget",
  });
});

test("decideAlone answers without a ledger for a pod that is exempt, that no budget selects, or that it cannot decide", () => {
  const guardOf = (answer: ReturnType<typeof decideAlone>) => ("guard" in answer ? answer.guard : "");
  const broken = zoneBudget("broken", { selector: "nothing" });
  for (const [changes, guard] of [
    [{ pod: pod("a-0", { terminating: true }) }, "exempt"],
    [{ pod: pod("a-0", { finished: true }), owner: undefined }, "exempt"],
    [{ budgets: [] }, "out-of-scope"],
    [{ budgets: [], owner: undefined }, "out-of-scope"],
    [{ owner: undefined }, "no-statefulset"],
    [{ budgets: [broken] }, "invalid-budget"],
    [{ budgets: [broken], owner: undefined }, "invalid-budget"],
    [{ budgets: [zoneBudget("one", {}), zoneBudget("two", {})], owner: undefined }, "several-budgets"],
  ] as const) {
    assert.equal(guardOf(alone(changes)), guard);
  }
  const orphan = alone({ owner: undefined });
  assert.ok("guard" in orphan && !orphan.allowed);
  assert.deepEqual([orphan.code, orphan.cause], [429, "DisruptionBudget"]);
});
