/** While one version replaces another, the API server is never sent to a path that a replica does not answer. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { load, loadAll } from "js-yaml";
import manifest from "../../package.json" with { type: "json" };
import { createAdmissionApp } from "../../triggers/server/server.ts";
import { admissionFunctions } from "../../triggers/table.ts";
import { createReporting } from "../../triggers/telemetry/logs-and-metrics.ts";
import { read, type Source } from "../support/tree.ts";
import { answersOf, mistakesOf, namesOf, type Version, type Webhook } from "./reviews.ts";

const configurations = read("knative/**/*.yaml").filter(({ text }) =>
  /^kind: (Mutating|Validating)WebhookConfiguration$/m.test(text),
);
const isOfChart = ({ path }: Source) => path.startsWith("knative/chart/");

/** The webhooks of a file. Of a template the actions of Helm are left out: none of them writes a path or a rule. */
function webhooksOf({ text }: Source): readonly Webhook[] {
  const plain = text.replace(/^.*\{\{-.*\n/gm, "").replace(/\{\{[^}]*\}\}/g, "x");
  return loadAll(plain).flatMap((object) => (object as { readonly webhooks: readonly Webhook[] }).webhooks);
}

/** The paths at which the shipped server takes reviews. */
function servedPaths(): readonly string[] {
  const handler = { review: () => Promise.reject(new Error("no review is posted")) };
  const app = createAdmissionApp({
    reporting: createReporting({ version: "0", serving: "all", level: "error", keys: () => 0 }),
    admissions: admissionFunctions.map((definition) => ({ definition, handler })),
    reviewsOnPort: false,
    asksForCertificates: false,
    namespaces: [],
    notReady: () => undefined,
    enqueuer: { changed: () => "queued", tick: () => false, due: () => false },
    watches: new Set(),
    bodyLimitBytes: 0,
    monotonicMs: () => 0,
  });
  return app.routes.filter(({ method }) => method === "POST").map(({ path }) => path);
}

const answers = answersOf(admissionFunctions, servedPaths());
const inManifests = namesOf(configurations.filter((source) => !isOfChart(source)).flatMap(webhooksOf));
const inChart = namesOf(configurations.filter(isOfChart).flatMap(webhooksOf));
const [file = assert.fail("no list of reviews")] = read("knative/reviews.yaml");
const versions = load(file.text) as Readonly<Record<string, Version>>;

suite("the list of what each version names and answers", () => {
  test("manifests and chart name the same, one webhook for each function that reviews", () => {
    assert.deepEqual(inChart, inManifests);
    assert.deepEqual(Object.keys(inManifests), admissionFunctions.map(({ registration }) => registration.path).sort());
  });

  test("the server answers each path of the functions, and no other", () => {
    assert.deepEqual(servedPaths().toSorted(), admissionFunctions.flatMap(({ paths }) => paths).toSorted());
  });

  test("the present version is listed as it is, and no review is lost between it and the version before", () => {
    assert.deepEqual(mistakesOf(versions, manifest.version, { names: inManifests, answers }), []);
  });
});

suite("a list of versions that do not fit together is refused", () => {
  const eviction = { "/a": ["CREATE v1 pods/eviction"] };
  const both = { ...eviction, "/b": ["UPDATE apps/v1 statefulsets"] };
  const older = { names: eviction, answers: eviction };

  test("a path that the version before does not answer may be answered, and not yet be named", () => {
    const answering = { names: eviction, answers: both };
    assert.deepEqual(mistakesOf({ "1.0.0": older, "1.1.0": answering }, "1.1.0", answering), []);
    const naming = { names: both, answers: both };
    assert.deepEqual(mistakesOf({ "1.0.0": older, "1.1.0": naming }, "1.1.0", naming), [
      "a webhook configuration names /b for UPDATE apps/v1 statefulsets, which 1.0.0 does not answer: answer it in this version, and name it in the next",
    ]);
    assert.deepEqual(mistakesOf({ "1.0.0": older, "1.1.0": answering, "1.2.0": naming }, "1.2.0", naming), []);
  });

  test("so may an operation or a resource of a path", () => {
    const more = { "/a": ["CREATE v1 pods/eviction", "DELETE v1 pods"] };
    const answering = { names: eviction, answers: more };
    assert.deepEqual(mistakesOf({ "1.0.0": older, "1.1.0": answering }, "1.1.0", answering), []);
    const naming = { names: more, answers: more };
    const [mistake = ""] = mistakesOf({ "1.0.0": older, "1.1.0": naming }, "1.1.0", naming);
    assert.match(mistake, /names \/a for DELETE v1 pods, which 1\.0\.0 does not answer/);
  });

  test("a path that the version before names stays answered for one version more", () => {
    const renamed = { names: { "/b": both["/b"] }, answers: { "/b": both["/b"] } };
    const first = { names: eviction, answers: both };
    assert.deepEqual(mistakesOf({ "1.0.0": first, "1.1.0": renamed }, "1.1.0", renamed), [
      "1.0.0 names /a for CREATE v1 pods/eviction, which this version does not answer: answer it in this version, and drop it in the next",
    ]);
  });

  test("an entry that is not what the tree has is refused with what to write, and so is a version without one", () => {
    const [differing = ""] = mistakesOf({ "1.0.0": older }, "1.0.0", { names: eviction, answers: both });
    assert.match(
      differing,
      /wrong about `answers` of \/b\. For 1\.0\.0, .* write\n1\.0\.0:\n {2}names:\n[\s\S]*\/b:\n/,
    );
    assert.match(mistakesOf({ "1.0.0": older }, "1.1.0", older).join(), /copy it, below it, for 1\.1\.0/);
  });

  test("a function that answers more rules than it is registered for lists them, on each path that is served", () => {
    const [definition = assert.fail()] = admissionFunctions;
    const { rule } = definition.registration;
    const preparing = { ...definition, paths: ["/a", "/b"], nextRules: [{ ...rule, operations: ["DELETE"] }] };
    const kinds = ["CREATE v1 pods/eviction", "DELETE v1 pods/eviction"];
    assert.deepEqual(answersOf([preparing], ["/a", "/b"]), { "/a": kinds, "/b": kinds });
    assert.deepEqual(answersOf([preparing], ["/b"]), { "/b": kinds });
  });
});
