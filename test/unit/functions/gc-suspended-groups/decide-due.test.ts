/** What a collection of volumes writes, names and waits for, where several members or volume claims differ. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { decide } from "../../../../functions/gc-suspended-groups/decide.ts";
import type { RemovalSnapshot } from "../../../../functions/gc-suspended-groups/decide-removals.ts";
import { minutesAgo, nowMs, Suspended } from "../../../support/suspended.ts";

type Texts = Readonly<Record<string, string | undefined>>;

const decideOn = (on: Suspended, changes: Partial<RemovalSnapshot> = {}) =>
  decide({ ...on.around("gc-suspended-groups", "volume"), removes: true, ...changes });

/** `KIND MEMBER: VOLUME CLAIMS` of each target, and of a release also those that are kept; the guard of a message or a wait. */
function decided(on: Suspended, changes: Partial<RemovalSnapshot> = {}): readonly string[] {
  const verdict = decideOn(on, changes);
  if (verdict.kind === "wait") return [verdict.guard];
  const names = (pvcs: readonly { readonly name: string }[]) => pvcs.map(({ name }) => name.split("-db-")[0]).join(" ");
  return verdict.targets.map((target) => {
    if (target.kind === "tell") return `${target.guard} ${target.member.name}`;
    if (target.kind === "restamp") return `restamp ${target.member.name}: ${names(target.anew.pvcs)}`;
    if (target.kind === "release")
      return `release ${target.member.name}: ${names(target.pvcs)}, kept ${names(target.kept)}`.trim();
    return `${target.kind} ${target.member.name}`;
  });
}

/** Members whose time of an hour is over for an hour. */
function over(zones: readonly string[] = ["a"], ordinals: readonly number[] = [2]): Suspended {
  const on = Suspended.of(zones);
  for (const zone of zones) for (const ordinal of ordinals.toSorted().toReversed()) on.suspend(zone, ordinal, 120);
  return on;
}

/** A second volume claim of `db-a-2`, as the first one is, with other annotations and metadata. */
function alsoLog(on: Suspended, texts: Texts = {}, metadata = {}): Suspended {
  on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "log" } }] });
  const data = on.claims.get("data-db-a-2") ?? assert.fail("no volume claim");
  const given = Object.entries(texts).map(([key, text]) => [`sluice.dev/${key}`, text] as const);
  const all = Object.entries({ ...data.metadata.annotations, ...Object.fromEntries(given) });
  const annotations = Object.fromEntries(all.filter((entry): entry is [string, string] => entry[1] !== undefined));
  const own = { ...data.metadata, name: "log-db-a-2", uid: "uid-log", annotations, ...metadata };
  on.claims.set("log-db-a-2", { ...data, metadata: own });
  return on;
}

/** Another client has deleted the volume claim so many minutes ago. */
function deletedAgo(on: Suspended, minutes: number): Suspended {
  const deletionTimestamp = minutesAgo(minutes);
  on.change("a", 2, (claim) => ({ ...claim, metadata: { ...claim.metadata, deletionTimestamp } }));
  return on;
}

const removing = (on = over()) => {
  on.annotate("a", 2, { "suspend-state": "Removing" });
  return on;
};

describe("what a verdict names", () => {
  test("are the members whose volumes go, with their zone, and not those that only get a message", () => {
    const verdict = decideOn(over());
    assert.deepEqual(
      [verdict.message, verdict.zone, verdict.requeueAfterMs],
      ["the volumes of db-a-2 are removed", "db-a", 2_000],
    );
    const on = over(["a", "b"]);
    on.annotate("b", 2, { hold: "true" });
    assert.deepEqual(decided(on), ["remove db-a-2", "on-hold db-b-2"]);
    assert.equal(decideOn(on).message, "the volumes of db-a-2 are removed");
  });

  test("is why a time begins again, alone and beside a removal", () => {
    const on = over(["a"], [1, 2]);
    on.addPod("db-a-1", "uid-db-a");
    assert.match(decideOn(on).message, /^the volumes of db-a-2 are removed; .*db-a-1/);
    const alone = over();
    alone.addPod("db-a-2", "uid-db-a");
    assert.deepEqual(decided(alone), ["restamp db-a-2: data"]);
    assert.match(decideOn(alone).message, /db-a-2/);
    assert.doesNotMatch(decideOn(alone).message, /are removed/);
  });
});

describe("when the group is reconciled again", () => {
  const left = (...minutes: readonly number[]) => {
    const on = Suspended.of(["a"]);
    minutes.toReversed().forEach((ago, index) => {
      on.suspend("a", 2 - index, ago);
    });
    return decideOn(on).requeueAfterMs;
  };

  test("at the end of the first time, after five minutes at the latest, and after 15 s where something else blocks", () => {
    assert.equal(left(57), 180_000);
    assert.equal(left(57, 58), 120_000);
    assert.equal(left(50), 300_000);
    const on = over();
    on.annotate("a", 2, { hold: "true" });
    assert.equal(decideOn(on).requeueAfterMs, 15_000);
    const none = Suspended.of(["a"]);
    assert.deepEqual([decideOn(none).kind, decideOn(none).requeueAfterMs], ["take", undefined]);
  });
});

describe("a mark of a removal that has not begun", () => {
  const early = (on: Suspended) => {
    on.annotate("a", 2, { "suspend-duration": "3h" });
    return on;
  };

  test("is taken back where the time is not over, from the volume claims that are not deleted", () => {
    assert.deepEqual(decided(early(removing())), ["restamp db-a-2: data"]);
    const half = alsoLog(early(removing()), {}, { deletionTimestamp: minutesAgo(1) });
    assert.deepEqual(decided(half), ["restamp db-a-2: data", "release db-a-2: log, kept"]);
    const one = alsoLog(early(removing()), { "suspend-state": "Suspended" });
    assert.deepEqual(decided(one), ["suspended db-a-2"], "the other one is not marked");
    assert.deepEqual(decided(deletedAgo(early(removing()), 1)), ["release db-a-2: data, kept"], "all are deleted");
    assert.ok(!decided(early(removing()), { wallMs: nowMs + 3_600_000 }).includes("restamp db-a-2: data"));
  });

  test("stands back once, and gets no message besides; other members go on, and what was never marked stays", () => {
    const on = over(["a", "b"]);
    on.annotate("a", 2, { "suspend-state": "Removing", "removal-claim": "volume db-a 2 1", hold: "true" });
    assert.deepEqual(decided(on), ["stand-back db-a-2", "remove db-b-2"]);
    on.annotate("a", 2, { "suspend-state": "Suspended" });
    assert.deepEqual(decided(on), ["remove db-b-2", "on-hold db-a-2"]);
    const back = removing();
    back.annotate("a", 2, { "removal-claim": "volume db-a 2 1" });
    back.addPod("db-a-2", "uid-db-a");
    back.spec("a", { replicas: 3 });
    assert.deepEqual(decided(back), ["restamp db-a-2: data"], "its time begins again, which is enough");
  });
});

describe("a volume claim that is deleted and never removed", () => {
  /** Another client has deleted it, and its request is gone. */
  const stuck = (minutes = 60, texts: Texts = { suspend: undefined }) => {
    const on = over();
    on.annotate("a", 2, texts);
    return deletedAgo(on, minutes);
  };
  const released = ["release db-a-2: data, kept data"];

  test("goes at the end of its time since it was deleted, and its volume is kept", () => {
    assert.deepEqual(decided(stuck()), released);
    assert.deepEqual(decided(stuck(59)), []);
    assert.deepEqual(decided(stuck(60, { suspend: undefined, "suspended-at": minutesAgo(59) })), []);
    const unknown = stuck();
    unknown.policy("a", { "suspend-duration": "soon" });
    assert.deepEqual(decided(unknown), []);
  });

  test("stays where a removal has begun or may come, a pod uses it, or the mode is None", () => {
    assert.ok(!decided(stuck(60, {})).includes(released[0] ?? ""), "its removal comes");
    const used = stuck();
    used.addPod("reader", "another", ["data-db-a-2"]);
    assert.ok(!decided(used).includes(released[0] ?? ""));
    const frozen = stuck();
    frozen.policy("a", { "removal-mode": "None" });
    assert.deepEqual(decided(frozen), []);
    const marked = stuck(60, { suspend: undefined, "suspend-state": "Removing" });
    assert.deepEqual(decided(marked)[0], "release db-a-2: data, kept", "a removal goes on as such");
  });

  test("is released by itself: one that is not deleted, without our finalizer or protected for its owner stays", () => {
    const also = (texts: Texts, metadata: object) => decided(alsoLog(stuck(), texts, metadata));
    assert.deepEqual(also({}, {}), ["release db-a-2: data log, kept data log"]);
    assert.deepEqual(also({}, { deletionTimestamp: undefined }), released);
    assert.deepEqual(also({}, { finalizers: ["kubernetes.io/pvc-protection"] }), released);
    const finalizers = ["sluice.dev/volume-hold", "sluice.dev/volume-protection"];
    assert.deepEqual(also({}, { finalizers }), released);
  });

  test("clock-unsure: is kept, with a message, where its time is over by one of two clocks alone", () => {
    const apart = { wallMs: nowMs + 3_600_000 };
    const on = stuck(30);
    on.annotate("a", 2, { suspend: "true", "suspend-owner-uid": "uid-of-another" });
    assert.equal(decideOn(on, apart).kind, "wait");
    assert.deepEqual(decided(stuck(30), apart), ["clock-unsure"]);
    assert.deepEqual(decided(stuck(30)), []);
  });
});

describe("where everything is given back", () => {
  const removes = { removes: false };

  test("uninstalling: the volume of a deleted claim is kept, unless its removal has begun and nothing keeps it", () => {
    assert.deepEqual(decided(over(), removes), ["release db-a-2: data, kept"]);
    assert.deepEqual(decided(deletedAgo(over(), 1), removes), ["release db-a-2: data, kept data"]);
    const going = () => deletedAgo(removing(), 1);
    assert.deepEqual(decided(going(), removes), ["release db-a-2: data, kept"]);
    const keeping: readonly ((on: Suspended) => void)[] = [
      (on) => on.annotate("a", 2, { hold: "true" }),
      (on) => on.policy("a", { "retain-pv": "true" }),
      (on) => on.policy("a", { "removal-mode": "None" }),
    ];
    for (const keep of keeping) {
      const on = going();
      keep(on);
      assert.deepEqual(decided(on, removes), ["release db-a-2: data, kept data"]);
    }
  });

  test("removing: a removal that goes on keeps the volumes that should stay, and no others", () => {
    const on = deletedAgo(removing(), 1);
    assert.deepEqual(decided(on)[0], "release db-a-2: data, kept");
    on.policy("a", { "retain-pv": "true" });
    assert.deepEqual(decided(on)[0], "release db-a-2: data, kept data");
  });

  test("namespace-ending: what is on hold stays, the first is named, and one without our finalizer counts as given back", () => {
    const ending = { isNamespaceEnding: true };
    const on = deletedAgo(over(["a", "b"]), 1);
    on.annotate("b", 2, { hold: "true" });
    assert.deepEqual(decided(on, ending), ["release db-a-2: data, kept"]);
    on.annotate("a", 2, { hold: "true" });
    assert.deepEqual(decided(on, ending), ["on-hold"]);
    assert.match(decideOn(on, ending).message, /db-a-2/);
    on.hold("a", 2, []);
    assert.match(decideOn(on, ending).message, /db-b-2/);
    const half = alsoLog(over(), { hold: "true" }, { finalizers: [] });
    assert.deepEqual(decided(half, ending), ["on-hold"], "one of two has our finalizer");
    const none = over();
    none.annotate("a", 2, { hold: "true" });
    none.hold("a", 2, []);
    assert.deepEqual(decided(none, ending), ["namespace-ending"]);
  });
});

describe("the message on volume claims", () => {
  const messages = (on: Suspended, data: string | undefined, log: string | undefined, changes = {}) => {
    on.annotate("a", 2, { "suspend-message": data });
    alsoLog(on, { "suspend-message": log });
    return decideOn(on, changes).kind;
  };
  const onHold = () => {
    const on = over();
    on.annotate("a", 2, { hold: "true" });
    return on;
  };

  test("is written where one of them has another one, and not where only a deleted one has", () => {
    assert.equal(messages(onHold(), "on-hold: it stays", "on-hold: it stays"), "wait");
    assert.equal(messages(onHold(), "on-hold: it stays", "zones-down: no"), "take");
    const deleted = deletedAgo(onHold(), 1);
    assert.equal(messages(deleted, "zones-down: no", undefined), "wait", "both are deleted");
  });

  test("clock-unsure: is not written over another one, and is where one of them has none", () => {
    const apart = { wallMs: nowMs + 3_600_000 };
    assert.equal(messages(over(), "suspended: for an hour", "suspended: for an hour", apart), "wait");
    assert.equal(messages(over(), "suspended: for an hour", undefined, apart), "take");
  });

  test("is left to the function that suspends where the member does not ask to go any more", () => {
    const on = onHold();
    on.annotate("a", 2, { suspend: undefined });
    assert.ok(!decided(on).includes("on-hold db-a-2"));
  });
});
