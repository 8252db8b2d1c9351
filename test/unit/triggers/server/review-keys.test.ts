/**
 * API servers must show a key while every webhook configuration has it. A client without it learns nothing and costs
 * nothing.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import type { AdmissionHandler } from "../../../../functions/shared/admission/definition.ts";
import type { WebhookConfigurationObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { ReviewKeyCheck } from "../../../../triggers/server/review-keys.ts";
import { createAdmissionApp } from "../../../../triggers/server/server.ts";
import { createTestApp, quietServer, validation } from "../../../support/app.ts";

const [eviction, downscale] = ["/admission/pod-eviction", "/admission/no-downscale"];
const newKey = () => randomBytes(32).toString("hex");
const [key, other, foreign] = [newKey(), newKey(), newKey()];
const none = { current: undefined, next: undefined, previous: undefined };

/** A configuration of one webhook, by its path in our namespace, its path elsewhere, or its URL; its label, if it has one. */
function configurationOf(path: string, namespace = "mimir", labelled?: string): WebhookConfigurationObject {
  const isUrl = path.startsWith("https:");
  const clientConfig = isUrl ? { url: path } : { service: { namespace, name: "rollout-operator", path } };
  const webhook = { name: "one.grafana.com", clientConfig, admissionReviewVersions: ["v1"], sideEffects: "None" };
  const labels = labelled === undefined ? {} : { "grafana.com/namespace": labelled };
  return { metadata: { name: "one", labels }, webhooks: [webhook] } as never;
}

/** The clock advances only when the test moves it. */
function createKeys(paths = [eviction, downscale]) {
  let nowMs = 1_000;
  const sleeps: (() => void)[] = [];
  const sleep = (_ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve) => {
      sleeps.push(resolve);
      signal?.addEventListener("abort", () => resolve());
    });
  const keys = new ReviewKeyCheck({ namespace: "mimir", paths, clock: { monotonicMs: () => nowMs, sleep } });
  const goOn = (ms: number) => {
    nowMs += ms;
    for (const resume of sleeps.splice(0)) resume();
  };
  keys.know({ ...none, current: key });
  const see = (...found: readonly string[]) => keys.see(found.map((path) => configurationOf(path)));
  return { keys, see, goOn };
}

test("the key is required once all configurations of a path have had it for 10 s, and no longer once one lacks it", () => {
  const { keys, see, goOn } = createKeys();
  see(`/${key}${eviction}`);
  goOn(9_999);
  assert.ok(!keys.asks(eviction) && !keys.asksEverywhere());
  goOn(1);
  assert.ok(keys.asks(eviction) && keys.asksEverywhere());
  for (const plain of [eviction, `/${foreign}${eviction}`, `https://proxy.example:8443${eviction}`]) {
    see(`/${key}${eviction}`, plain);
    assert.ok(!keys.asks(eviction) && !keys.asksEverywhere(), plain);
    goOn(60_000);
    assert.ok(!keys.asks(eviction), plain);
    see(`/${key}${eviction}`);
    assert.ok(!keys.asks(eviction), "the 10 s begin again");
    goOn(10_000);
    assert.ok(keys.asks(eviction));
  }
});

test("a configuration with our label counts wherever it points, and one with the label of another namespace never counts", () => {
  const { keys, goOn } = createKeys();
  const ours = configurationOf(`/${key}${eviction}`);
  keys.see([
    ours,
    configurationOf(`https://proxy.example${eviction}`, "", "loki"),
    configurationOf(eviction, "mimir", "loki"),
  ]);
  goOn(10_000);
  assert.ok(keys.asks(eviction));
  keys.see([ours, configurationOf(eviction, "gateways", "mimir")]);
  assert.ok(!keys.asks(eviction));
});

test("a configuration does not count if it points elsewhere: to another namespace, a malformed URL or another path", () => {
  const { keys, goOn } = createKeys();
  const ours = configurationOf(`/${key}${eviction}`);
  const others = [
    configurationOf(eviction, "loki"),
    configurationOf("https://elsewhere.example/admission"),
    configurationOf("https://[/"),
    configurationOf("/"),
    configurationOf("/something/else"),
    { metadata: { name: "empty" } } as never,
  ];
  keys.see([ours, ...others]);
  goOn(10_000);
  assert.ok(keys.asks(eviction) && keys.asksEverywhere());
});

test("a path without a configuration requires the key as soon as another path does, and never by itself", () => {
  const { keys, see, goOn } = createKeys();
  see();
  goOn(60_000);
  assert.ok(!keys.asks(downscale) && !keys.asks(eviction));
  see(`/${key}${eviction}`);
  goOn(10_000);
  assert.ok(keys.asks(downscale) && keys.asks("/nothing/here"));
  see(`/${key}${eviction}`, downscale);
  assert.ok(keys.asks(eviction) && !keys.asks(downscale) && !keys.asksEverywhere());
  assert.deepEqual(keys.asked(), [
    [eviction, true],
    [downscale, false],
  ]);
});

test("a renewal interrupts nothing, because each of the Secret's three keys counts, in configurations and in requests", () => {
  const { keys, see, goOn } = createKeys();
  see(`/${key}${eviction}`);
  goOn(10_000);
  for (const known of [
    { current: key, next: other, previous: undefined },
    { current: other, next: undefined, previous: key },
  ]) {
    keys.know(known);
    assert.ok(keys.asks(eviction) && keys.isShown(`/${key}${eviction}`) && keys.isShown(`/${other}${eviction}`));
    assert.ok(!keys.isShown(`/${foreign}${eviction}`) && !keys.isShown(eviction) && !keys.isShown(undefined));
  }
  see(`/${other}${eviction}`);
  assert.ok(keys.asks(eviction));
  keys.know({ current: foreign, next: undefined, previous: other });
  assert.ok(keys.asks(eviction) && !keys.isShown(`/${key}${eviction}`), "the key of two renewals ago");
});

test("no key is required while the keys or the configurations are unknown", () => {
  const { keys, see, goOn } = createKeys();
  keys.know(none);
  see(`/${key}${eviction}`);
  goOn(60_000);
  assert.ok(!keys.asks(eviction));
  keys.know({ ...none, current: key });
  goOn(10_000);
  assert.ok(keys.asks(eviction));
  keys.see(undefined);
  assert.ok(!keys.asks(eviction) && !keys.asks("/nothing/here") && !keys.asksEverywhere());
});

/** The app of the TLS port, which requires the key. */
function createServer() {
  const { keys, see, goOn } = createKeys(validation.definition.paths as string[]);
  const [path = ""] = validation.definition.paths;
  see(`/${key}${path}`);
  goOn(10_000);
  const { reporting, lines } = createTestApp();
  const decided: string[] = [];
  const handler: AdmissionHandler = {
    ...validation.handler,
    review(asked) {
      decided.push(asked.name);
      return validation.handler.review(asked);
    },
  };
  const app = createAdmissionApp({
    ...quietServer,
    reporting,
    admissions: [{ ...validation, handler }],
    reviewKeys: keys,
  });
  return { app, see, goOn, path, lines, decided };
}

const request = { uid: "1", operation: "CREATE", namespace: "mimir", name: "budget", object: {} };
const review = JSON.stringify({ kind: "AdmissionReview", apiVersion: "admission.k8s.io/v1", request });
const post = { method: "POST", headers: { "content-type": "application/json" }, body: review };

test("without the key every request gets one constant answer, which asks no function, reads no body and logs no line", async () => {
  const { app, goOn, path, lines, decided } = createServer();
  const swapped = `/${key.toUpperCase()}${path}`;
  const strange = [
    path,
    `/${foreign}${path}`,
    `/${foreign}/${key}${path}`,
    `${path}?key=${key}`,
    `${path}/${key}`,
    ...(swapped === `/${key}${path}` ? [] : [swapped]),
    `/%2e${path}`,
    `/${key.slice(1)}${path}`,
    "/",
    "/healthz",
    "/admission/no-downscale",
  ];
  const answers = new Set<string>();
  for (const where of strange) {
    const body = new Request(`http://x${where}`, { ...post, headers: { ...post.headers, traceparent: "00-1-1-01" } });
    const answer = app.fetch(body);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    goOn(1_000);
    const { status, headers } = await answer;
    answers.add(`${status} ${JSON.stringify([...headers])} ${await (await answer).text()}`);
    assert.equal(body.bodyUsed, false, where);
  }
  const gotten = app.fetch(new Request(`http://x${path}`));
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  goOn(1_000);
  answers.add(`${(await gotten).status} ${JSON.stringify([...(await gotten).headers])} ${await (await gotten).text()}`);
  assert.deepEqual([...answers].length, 1, [...answers].join("\n"));
  assert.match([...answers].join(), /^401 .*Show the key of API servers/);
  assert.deepEqual([decided, lines], [[], []]);
});

test("with the key a review is decided, and a request that is no review gets its usual answer", async () => {
  const { app, path, decided } = createServer();
  assert.equal((await app.request(`/${key}${path}`, post)).status, 200);
  assert.deepEqual(decided, ["budget"]);
  assert.equal((await app.request(`/${key}${path}`)).status, 405);
  assert.equal((await app.request(`/${key}/nothing`, post)).status, 404);
  assert.equal((await app.request(`/${key}/${key}${path}`, post)).status, 404);
});

test("a review at the plain path is answered as soon as the watch reports that a configuration was changed back to it", async () => {
  const { app, see, path, decided } = createServer();
  const answer = app.request(path, post);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  assert.deepEqual(decided, []);
  see(path);
  assert.equal((await answer).status, 200);
  assert.deepEqual(decided, ["budget"]);
});

test("while no key is required, a path with any key counts as the plain path", async () => {
  const { app, see, path } = createServer();
  see(path);
  for (const where of [path, `/${key}${path}`, `/${foreign}${path}`])
    assert.equal((await app.request(where, post)).status, 200, where);
});
