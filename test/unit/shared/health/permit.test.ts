/** Which pods are asked, and what their answers permit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type HealthQuestion, parseQuestion } from "../../../../functions/shared/annotations/parse-health.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import {
  blockedByQuestion,
  blockedLeaving,
  isAsked,
  otherDown,
  type Questions,
  warnOfUnknown,
} from "../../../../functions/shared/health/permit.ts";
import { type Health, refuseByHealth } from "../../../../functions/shared/ledger/health-rule.ts";
import { claimOf, zone } from "../../functions/advance-zone-rollout/given.ts";

function questionOf(reported: Readonly<Record<string, string>> = {}): HealthQuestion {
  const texts = { question: "http", url: "http://:80/", ...reported };
  const annotations = Object.fromEntries(
    Object.entries(texts).map(([key, text]) => [`sluice.dev/health-${key}`, text]),
  );
  return parseQuestion({ name: "a", uid: "u", resourceVersion: "1", annotations }, "nodes") as HealthQuestion;
}
const asking = (name: string, drawing: string, reported?: Readonly<Record<string, string>>): Zone => {
  const drawn = zone(name, drawing);
  return { ...drawn, workload: { ...drawn.workload, question: questionOf(reported) } };
};
const pods = (one: Zone) => one.pods[0] ?? assert.fail();

function questions(health?: Health, changes: Partial<Questions> = {}): Questions {
  const answers = new Map(health === undefined ? [] : [["uid-of-a-0", { health, askedMs: 2 }]]);
  return {
    answers,
    refuse: (_, answered) => {
      const presumed = { health: { state: "good" as const, detail: "" }, askedMs: 2 };
      return refuseByHealth({ reservations: [], claims: [], readMs: 1 }, answered ?? presumed);
    },
    isOver: false,
    ...changes,
  };
}
const guardOf = (own: Zone, known: Questions | undefined, zones: readonly Zone[] = [own]) =>
  blockedByQuestion(known, zones, own, pods(own))?.guard;

test("a StatefulSet without a question, or one that is being deleted, blocks no pod", () => {
  const plain = zone("a", "ooo");
  assert.equal(guardOf(plain, undefined), undefined);
  const own = asking("a", "ooo");
  const deleted = { ...own, workload: { ...own.workload, deleting: true } };
  assert.deepEqual([isAsked(own.workload), isAsked(deleted.workload)], [true, false]);
  assert.equal(guardOf(deleted, questions({ state: "bad", detail: "" })), undefined);
  const owned = { ...own, workload: { ...own.workload, kind: "Owner" } } as never as Zone;
  assert.equal(isAsked(owned.workload), false, "only a StatefulSet has a question");
  assert.equal(guardOf({ ...own, workload: { ...own.workload, question: undefined } }, undefined), undefined);
});

test("of pods that leave by one claim one alone is asked, and two of a StatefulSet with a question go one at a time", () => {
  const own = asking("a", "ooo");
  const guard = (zoneOf: Zone, count: number) =>
    blockedLeaving(questions({ state: "bad", detail: "" }), [zoneOf], zoneOf, zoneOf.pods.slice(0, count));
  assert.equal(guard(own, 1)?.guard, "health-bad");
  assert.equal(guard(own, 2)?.guard, "health-beside-others");
  assert.match(guard(own, 2)?.message ?? "", /a-0/);
  assert.equal(guard(own, 0), undefined);
  assert.equal(guard(zone("a", "ooo"), 2), undefined, "it has no question");
});

test("health-not-asked: a pod that was not asked counts as good until the round of questions is over", () => {
  const own = asking("a", "ooo");
  assert.equal(guardOf(own, questions()), undefined);
  assert.equal(guardOf(own, questions(undefined, { isOver: true })), "health-not-asked");
  assert.equal(guardOf(own, undefined), "health-not-asked", "a caller without questions has asked no pod");
  assert.equal(guardOf(own, questions({ state: "good", detail: "" }, { isOver: true })), undefined);
});

test("question-malformed: a malformed question is reported before anything else", () => {
  assert.equal(
    guardOf(asking("a", "ooo", { url: "nowhere" }), questions({ state: "good", detail: "" })),
    "question-malformed",
  );
});

test("the message of rule R22 names the pod", () => {
  const own = asking("a", "ooo");
  const blocked = blockedByQuestion(questions({ state: "bad", detail: "quorum" }), [own], own, pods(own));
  assert.deepEqual(blocked, { guard: "health-bad", message: "a-0 stays: asked about health, it says no: quorum" });
  const beside = { guard: "health-beside-others", message: "b-0 is reserved" };
  assert.equal(guardOf(own, questions(undefined, { refuse: () => beside })), beside.guard);
});

test("the policy go permits a pod without an answer, if nothing else is down and all questions of the group have it", () => {
  const silent = questions({ state: "unknown", detail: "HTTP 500" });
  const own = asking("a", "ooo", { unknown: "go" });
  assert.equal(guardOf(asking("a", "ooo"), silent), "health-unknown");
  assert.equal(guardOf(own, silent), undefined);
  assert.equal(guardOf(own, questions({ state: "bad", detail: "" })), "health-bad");
  assert.equal(guardOf(asking("a", "oxo", { unknown: "go" }), silent), "health-unknown");
  assert.equal(guardOf(asking("a", "xoo", { unknown: "go" }), silent), undefined, "it is the pod that is down");
  assert.equal(guardOf(own, silent, [own, zone("b", "oxo")]), "health-unknown");
  assert.equal(guardOf(own, silent, [own, zone("b", "ooo")]), undefined);
  assert.equal(guardOf(own, silent, [own, asking("b", "ooo")]), "health-unknown", "the group has one policy");
  assert.match(warnOfUnknown(silent, pods(own)) ?? "", /^a-0 was asked .* goes all the same.*HTTP 500$/);
  assert.equal(warnOfUnknown(questions({ state: "good", detail: "" }), pods(own)), undefined);
});

test("the message names what is down besides the pod", () => {
  const own = zone("a", "xoo");
  assert.equal(otherDown([own], own, pods(own)), undefined);
  assert.equal(otherDown([own, zone("b", "oox")], own, pods(own)), "b-2 is not ready");
  assert.equal(otherDown([own, zone("b", "xoo")], own, pods(own)), "b-0 is not ready", "of another StatefulSet");
  assert.equal(otherDown([own, { ...zone("b", "ooo"), missing: 1 }], own, pods(own)), "1 of b is missing");
  assert.equal(
    otherDown([own, { ...zone("b", "ooo"), leaving: [pods(zone("b", "o"))] }], own, pods(own)),
    "b-0 is leaving",
  );
  const both = zone("b", "oo").pods;
  assert.equal(otherDown([own, { ...zone("b", "ooo"), leaving: both }], own, pods(own)), "b-0 is leaving");
  assert.equal(otherDown([own, { ...zone("b", "ooo"), leaving: [pods(own)] }], own, pods(own)), undefined, "itself");
  const claimed = zone("b", "ooo", { claims: [claimOf("b:3", "scale-down")] });
  assert.equal(otherDown([own, { ...claimed, down: new Map() }], own, pods(own)), "pods of b are claimed");
});
