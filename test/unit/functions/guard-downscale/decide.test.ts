/** What may become smaller: each promise of the function's README, with the message that users see. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { guardDownscale } from "../../../../functions/guard-downscale/function.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  decideReview,
  kinds,
  objectOf,
  protection,
  type Resource,
  type ReviewOptions,
  reviewOf,
  scaleOf,
} from "./given.ts";

const resources = Object.keys(kinds) as Resource[];
const messageFor = (resource: string, from = 3, to = 2) =>
  `downscale of ${resource}/db-a in mimir from ${from} to ${to} replicas is not allowed because it has the label 'grafana.com/no-downscale=true'`;
const stored =
  (labels: object): NonNullable<ReviewOptions["get"]> =>
  async () => ({ metadata: { labels } });

describe("no-downscale", () => {
  for (const resource of resources) {
    const smaller = (labels: object, now = labels) =>
      reviewOf(objectOf({ resource, labels }), objectOf({ resource, labels: now, replicas: 2 }), { resource });

    test(`a downscale of one of the ${resource} with the label is refused as rollout-operator does`, async () => {
      const answer = await decideReview(smaller(protection));
      assert.ok(!answer.allowed);
      const { guard, code, reason, zone } = answer;
      assert.deepEqual([guard, code, reason, zone], ["no-downscale", 400, "BadRequest", "db-a"]);
      assert.equal(answer.message, messageFor(resource));
    });

    test(`for ${resource} a label that the same update removes counts, and a new one does not`, async () => {
      assert.equal((await decideReview(smaller(protection, {}))).guard, "no-downscale");
      assert.equal((await decideReview(smaller({}, protection))).guard, "allowed");
    });

    test(`a dry run for ${resource} is refused like a real update`, async () => {
      assert.equal((await decideReview({ ...smaller(protection), dryRun: true })).guard, "no-downscale");
    });

    test(`at the scale of ${resource} the labels are those of the object, which is looked up`, async () => {
      const request = reviewOf(scaleOf(3), scaleOf(2), { resource, subresource: "scale" });
      const asked: string[] = [];
      const get = async (...what: [string, string]) => {
        asked.push(what.join(" "));
        return { metadata: { labels: protection } };
      };
      const answer = await decideReview(request, { get });
      assert.equal(answer.allowed ? "" : answer.message, messageFor(resource));
      assert.deepEqual(asked, [`${resource} mimir/db-a`]);
      assert.equal((await decideReview({ ...request, dryRun: true }, { get })).guard, "no-downscale");
      assert.equal((await decideReview(request, { get: stored({}) })).guard, "allowed");
    });
  }

  test("a scale to 0 is a downscale, also if the request omits the number", async () => {
    for (const to of [0, undefined, null]) {
      const request = reviewOf(scaleOf(3), scaleOf(to), { subresource: "scale" });
      const answer = await decideReview(request, { get: stored(protection) });
      assert.equal(answer.allowed ? "" : answer.message, messageFor("statefulsets", 3, 0));
    }
  });

  test("any other value of the label lets a downscale through", async () => {
    for (const value of ["false", "True", "TRUE", "1", "yes", " true", ""]) {
      const labels = { "grafana.com/no-downscale": value };
      const answer = await decideReview(reviewOf(objectOf({ labels }), objectOf({ labels, replicas: 2 })));
      assert.deepEqual(answer, { allowed: true, guard: "allowed", warnings: [] }, value);
    }
    const annotations = protection;
    assert.equal((await decideReview(reviewOf(objectOf({ annotations }), objectOf({ replicas: 2 })))).guard, "allowed");
  });

  test("a labelled object may keep its size, grow, and change otherwise, and Sluice looks nothing up for it", async () => {
    const labels = protection;
    for (const replicas of [3, 4]) {
      const answer = await decideReview(reviewOf(objectOf({ labels }), objectOf({ labels, replicas })));
      assert.deepEqual(answer, { allowed: true, guard: "not-a-downscale", warnings: [] });
      const scaled = await decideReview(reviewOf(scaleOf(3), scaleOf(replicas), { subresource: "scale" }));
      assert.equal(scaled.guard, "not-a-downscale");
    }
  });

  test("Sluice allows an update of an object without replicas; if only one of old and new has none, with a warning", async () => {
    const without = objectOf({ labels: protection, replicas: null });
    assert.equal((await decideReview(reviewOf(without, without))).guard, "not-a-downscale");
    for (const request of [reviewOf(without, objectOf({ replicas: 0 })), reviewOf(objectOf({}), without)]) {
      const answer = await decideReview(request);
      assert.equal(answer.guard, "replicas-unclear");
      assert.ok(answer.allowed && answer.warnings.length === 1);
    }
  });
});

const scaled = reviewOf(scaleOf(3), scaleOf(2), { subresource: "scale" });

describe("closed: a scale whose object the API server does not show is refused, because it may be protected", () => {
  const failing = (code: number) => ({
    get: async () => {
      const init = { code, reason: "Failed", message: "the sky fell", verb: "get", resource: "statefulsets" };
      return Promise.reject(new ClusterError(init));
    },
  });
  const guards = { 0: "api-server-away", 401: "credentials-refused", 403: "right-missing", 404: "object-gone" };
  const passing = { 409: "right-missing", 422: "right-missing", 429: "api-server-away", 500: "api-server-away" };

  for (const [code, guard] of Object.entries({ ...guards, ...passing, 503: "api-server-away" })) {
    test(`${guard}: the API server answers ${code}`, async () => {
      const answer = await decideReview(scaled, failing(Number(code)));
      assert.ok(!answer.allowed);
      assert.deepEqual([answer.guard, answer.code], [guard, code === "404" ? 404 : 429]);
      const messageFor =
        /^downscale of statefulsets\/db-a in mimir from 3 to 2 replicas is not allowed: its labels are not known: /;
      assert.match(answer.message, messageFor);
    });
  }

  test("in shadow mode Sluice allows the downscale, with a warning that says what it would have answered", async () => {
    const answer = await decideReview(scaled, { ...failing(503), mode: "shadow" });
    assert.ok(answer.allowed && answer.warnings.join().includes("in shadow mode; otherwise refused with 429"));
  });

  test("late: the answer does not come in time", { timeout: 10_000 }, async () => {
    let nowMs = 0;
    const answer = await decideReview(scaled, {
      get: () => new Promise(() => undefined),
      monotonicMs: () => nowMs,
      sleep: async (ms) => {
        nowMs += ms;
      },
    });
    assert.ok(!answer.allowed);
    assert.deepEqual([answer.guard, answer.code], ["late", 429]);
    assert.ok(nowMs >= 9_000 && nowMs < 9_300, String(nowMs));
  });
});

describe("if Sluice itself cannot read or look up something, it allows a downscale, with a warning", () => {
  test("object-unknown: a look-up fails because of an error in Sluice", async () => {
    const answer = await decideReview(scaled, { get: async () => Promise.reject(new Error("the sky fell")) });
    const warning =
      "statefulsets/db-a could not be looked up, so that its labels are not known, and it goes through: the sky fell";
    assert.equal(answer.guard, "object-unknown");
    assert.deepEqual(answer.allowed && answer.warnings, [warning]);
  });

  test("Sluice cannot read an object, or the object has another type", async () => {
    const labels = protection;
    const smaller = objectOf({ labels, replicas: 2 });
    for (const request of [
      reviewOf(undefined, smaller),
      reviewOf(objectOf({ labels }), "no object"),
      reviewOf(objectOf({ labels }), objectOf({ labels, replicas: "2" })),
      reviewOf(objectOf({ labels: { a: 1 } }), smaller),
      reviewOf(objectOf({ labels }), smaller, { resource: "replicationcontrollers" }),
      reviewOf(objectOf({ labels }), smaller, { subresource: "scale" }),
    ]) {
      const answer = await decideReview(request);
      assert.equal(answer.guard, "unreadable-object");
      assert.ok(answer.allowed && answer.warnings.length === 1);
    }
  });

  test("the function allows when it breaks, and the API server refuses when it gets no answer", () => {
    assert.equal(guardDownscale.whenBroken, "open");
    assert.equal(guardDownscale.registration.failurePolicy, "Fail");
  });
});

test("in shadow mode Sluice allows a downscale, with a warning that says what it would have answered", async () => {
  const labels = protection;
  const answer = await decideReview(reviewOf(objectOf({ labels }), objectOf({ labels, replicas: 2 })), {
    mode: "shadow",
  });
  assert.ok(answer.allowed);
  const warning = `in shadow mode; otherwise refused with 400: ${messageFor("statefulsets")}`;
  assert.deepEqual([answer.guard, answer.warnings], ["no-downscale", [warning]]);
  assert.ok(typeof answer.otherwise === "object" && answer.otherwise.code === 400);
});
