import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { allow, forbidden } from "../../../../functions/shared/admission/answers.ts";
import type { AdmissionRequest } from "../../../../functions/shared/admission/definition.ts";
import { webhookConfiguration } from "../../../../knative/render/webhooks.ts";
import { createAdmissionApp } from "../../../../triggers/server/server.ts";
import { admissionFunctions } from "../../../../triggers/table.ts";
import { createTestApp, quietServer, validation } from "../../../support/app.ts";

const path = "/admission/zpdb-validation";
const json = { "content-type": "application/json" };
const readme = await readFile(new URL("../../../../functions/validate-zone-budget/README.md", import.meta.url), "utf8");

function budget(spec: object = {}): object {
  return {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: "ingester", namespace: "mimir" },
    spec: { selector: { matchLabels: { "rollout-group": "ingester" } }, maxUnavailable: 1, ...spec },
  };
}

function review(request: object = {}, version = "v1"): object {
  return {
    apiVersion: `admission.k8s.io/${version}`,
    kind: "AdmissionReview",
    request: { uid: "u-1", operation: "CREATE", namespace: "mimir", name: "ingester", object: budget(), ...request },
  };
}

interface Answer {
  readonly apiVersion: string;
  readonly kind: string;
  readonly response: {
    readonly uid: string;
    readonly allowed: boolean;
    readonly warnings?: readonly string[];
    readonly status?: {
      readonly code: number;
      readonly reason: string;
      readonly message: string;
      readonly details?: object;
    };
  };
}

function post(body: unknown, headers: Record<string, string> = json, app = createTestApp().app) {
  return app.request(path, { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
}

async function answerTo(body: unknown, app = createTestApp().app): Promise<Answer> {
  const response = await post(body, json, app);
  assert.equal(response.status, 200);
  return (await response.json()) as Answer;
}

test("a review is answered in its own version, with its uid", async () => {
  for (const version of ["v1", "v1beta1"]) {
    assert.deepEqual(await answerTo(review({}, version)), {
      apiVersion: `admission.k8s.io/${version}`,
      kind: "AdmissionReview",
      response: { uid: "u-1", allowed: true },
    });
  }
});

test("a refusal has code 400, a message and the field, in dry runs as well", async () => {
  for (const dryRun of [false, true]) {
    const { response } = await answerTo(review({ dryRun, object: budget({ maxUnavailable: -1 }) }));
    const message = "spec.maxUnavailable is -1: write an integer of at least 0, or use maxUnavailablePercentage";
    assert.deepEqual(response, {
      uid: "u-1",
      allowed: false,
      status: {
        status: "Failure",
        code: 400,
        reason: "BadRequest",
        message,
        details: { causes: [{ reason: "FieldValueInvalid", field: "spec.maxUnavailable", message }] },
      },
    });
  }
});

test("the answer to a dry run of an eviction names the guard as a cause besides, and no other answer does", async () => {
  const handler = { review: async () => forbidden("never-possible", "0 of 3 may ever go") };
  const { app } = createTestApp({ admissions: [{ definition: validation.definition, handler }] });
  const detailsOf = async (request: object) => (await answerTo(review(request), app)).response.status?.details;
  const causes = [{ reason: "SluiceGuard", message: "never-possible" }];
  assert.deepEqual(await detailsOf({ dryRun: true, subResource: "eviction" }), { causes });
  for (const request of [{ dryRun: true }, { subResource: "eviction" }])
    assert.equal(await detailsOf(request), undefined);
});

/** Each row of the README's table of bad input: what is sent, the status, the message. */
const badRequests: [row: string, status: number, message: RegExp, body: unknown, headers?: Record<string, string>][] = [
  ["no JSON", 400, /the body is not JSON/, "{"],
  ["no body", 400, /the body is empty/, ""],
  ["no AdmissionReview", 400, /its kind is "Pod"/, { kind: "Pod", apiVersion: "v1" }],
  ["no AdmissionReview", 400, /its kind is missing/, "[]"],
  ["another version", 400, /"admission\.k8s\.io\/v2", and not admission\.k8s\.io\/v1 or/, review({}, "v2")],
  ["no request, or one without uid", 400, /no request with a uid/, { ...review(), request: undefined }],
  ["no request, or one without uid", 400, /no request with a uid/, review({ uid: "" })],
  [
    "another content type",
    415,
    /wrong content type, "text\/plain": send application\/json/,
    review(),
    { "content-type": "text/plain" },
  ],
  ["another content type", 415, /wrong content type/, review(), { "content-type": "application/jsonx" }],
  ["a body of more than 5 MiB", 413, /larger than 5242880 bytes/, review({ object: "x".repeat(10_000_000) })],
  ["a uid of 257 characters", 400, /its uid is longer than 256 characters/, review({ uid: "u".repeat(257) })],
  ["a name that is none", 400, /its name "a\/b" is not a name that Kubernetes accepts/, review({ name: "a/b" })],
  ["a name that is none", 400, /its namespace "x{80}" is not a name/, review({ namespace: "x".repeat(100) })],
  ["JSON of 101 levels", 400, /nested more than 100 deep/, `${"[".repeat(101)}${"]".repeat(101)}`],
];

test("each request that is no review gets the status and the message of the README", async () => {
  for (const [row, status, expected, body, headers] of badRequests) {
    const response = await post(body, headers);
    assert.equal(response.status, status, row);
    assert.match(await response.text(), expected, row);
    assert.match(readme, new RegExp(`\\| ${row} +\\| HTTP ${status} `), row);
  }
  const { app } = createTestApp();
  const got = await app.request(path);
  assert.deepEqual([got.status, got.headers.get("allow")], [405, "POST"]);
  assert.match(readme, /\| another method +\| HTTP 405 /);
});

test("a body without a length is cut off at the same limit", async () => {
  const body = new ReadableStream({
    start(controller) {
      for (let part = 0; part < 10; part++) controller.enqueue(new TextEncoder().encode("x".repeat(1_000_000)));
      controller.close();
    },
  });
  const request = new Request(`http://127.0.0.1${path}`, { method: "POST", headers: json, body, duplex: "half" });
  assert.equal((await createTestApp().app.request(request)).status, 413);
});

test("a content type may have parameters and capital letters", async () => {
  for (const sent of ["application/json; charset=utf-8", "Application/JSON"]) {
    assert.equal((await post(review(), { "content-type": sent })).status, 200);
  }
});

test("each review of another kind or operation is refused with 400, as the README says", async () => {
  for (const [row, request, expected] of [
    ["another operation", { operation: "DELETE", object: null }, /operation "DELETE": register .+ CREATE and UPDATE/],
    ["another operation", { operation: undefined }, /of no operation/],
    ["no object", { object: undefined }, /^spec is missing/],
    ["no object", { object: null }, /^spec is missing/],
    ["another kind", { object: { kind: "Pod", spec: {} } }, /^kind is "Pod": write ZoneAwarePodDisruptionBudget/],
  ] as const) {
    const { response } = await answerTo(review(request));
    assert.deepEqual([response.allowed, response.status?.code], [false, 400], row);
    assert.match(response.status?.message ?? "", expected);
    assert.match(readme, new RegExp(`\\| ${row} +\\| denied, 400 `), row);
  }
});

test("a function that fails allows or refuses the review, as the table of paths says", async () => {
  for (const whenBroken of ["closed", "open"] as const) {
    const broken = {
      definition: { ...validation.definition, whenBroken },
      handler: { review: () => Promise.reject(new Error("the sky fell")) },
    };
    const { app, lines } = createTestApp({ admissions: [broken] });
    const { response } = await answerTo(review(), app);
    const expected = "validate-zone-budget could not decide this: the sky fell";
    if (whenBroken === "open") assert.deepEqual(response, { uid: "u-1", allowed: true, warnings: [expected] });
    else assert.deepEqual([response.allowed, response.status?.code, response.status?.message], [false, 500, expected]);
    assert.ok(lines.some(({ level }) => level === "error"));
  }
  const { paths, whenBroken } = validation.definition;
  for (const one of paths) assert.match(readme, new RegExp(`\\| \`${one}\` +\\| ${whenBroken} `), "the table of paths");
});

test("a function gets the type of the reviewed object, and the user's whole name", async () => {
  const seen: Pick<AdmissionRequest, "resource" | "user">[] = [];
  const handler = {
    async review({ resource, user }: AdmissionRequest) {
      seen.push({ resource, user });
      return allow("allowed");
    },
  };
  const { app } = createTestApp({ admissions: [{ definition: validation.definition, handler }] });
  const resource = { group: "apps", version: "v1", resource: "statefulsets" };
  const username = `system:serviceaccount:mimir:${"a".repeat(100)}`;
  await answerTo(review({ resource, userInfo: { username } }), app);
  await answerTo(review({ resource: "text", userInfo: { username: "b".repeat(2_000) } }), app);
  const unsaid = { group: "", version: "", resource: "" };
  assert.deepEqual(seen, [
    { resource, user: username },
    { resource: unsaid, user: `${"b".repeat(1_024)}…` },
  ]);
  assert.equal((await post(review({ resource: { ...resource, group: "g".repeat(254) } }), json, app)).status, 400);
});

test("the failure policy of a webhook does not depend on what its function answers when it fails", () => {
  for (const failurePolicy of ["Fail", "Ignore"] as const) {
    for (const whenBroken of ["closed", "open"] as const) {
      const { definition } = validation;
      const registration = { ...definition.registration, failurePolicy };
      const rendered = webhookConfiguration({ ...definition, registration, whenBroken });
      const [webhook] = rendered.webhooks as readonly { readonly failurePolicy: string }[];
      assert.equal(webhook?.failurePolicy, failurePolicy);
    }
  }
});

test("no two functions have the same path", () => {
  const paths = admissionFunctions.flatMap((one) => one.paths);
  assert.equal(new Set(paths).size, paths.length);
  for (const one of paths) assert.match(one, /^\/(admission|pods)\/[a-z-]+(\/pin)?$/);
});

test("reviews are counted, measured and logged", async () => {
  const { app, lines } = createTestApp();
  await answerTo(review(), app);
  await answerTo(review({ object: budget({ maxUnavailable: "1" }), dryRun: true }), app);
  await answerTo(review({ operation: "CONNECT" }), app);
  const text = await (await app.request("/metrics")).text();
  const has = (line: string) => assert.ok(text.includes(line), line);
  has('request_duration_seconds_count{method="POST",route="admission_zpdb_validation",status_code="200",ws="false"} 3');
  has('sluice_verdicts_total{function="validate-zone-budget",guard="allowed"} 1');
  has('sluice_verdicts_total{function="validate-zone-budget",guard="invalid-budget"} 1');
  has('sluice_verdicts_total{function="validate-zone-budget",guard="wrong-operation"} 1');
  const refused = lines.find(({ guard }) => guard === "invalid-budget");
  assert.match(String(refused?.msg), /^spec\.maxUnavailable is "1"/);
  assert.deepEqual(
    [refused?.namespace, refused?.object, refused?.dryRun, refused?.level],
    ["mimir", "ingester", true, "info"],
  );
});

test("a review that is answered never-possible sets the metric at once, and a dry run does not (R25)", async () => {
  const definition = { ...validation.definition, name: "evaluate-eviction" };
  const handler = { review: async () => forbidden("never-possible", "0 of 3 may ever go", { zone: "db-a" }) };
  const { app, reporting } = createTestApp({ admissions: [{ definition, handler }] });
  const metrics = () => reporting.metrics.registry.metrics();
  const series =
    /^sluice_never_possible_timestamp_seconds\{namespace="mimir",function="evaluate-eviction",zone="db-a"\} \d{10}/m;
  await answerTo(review({ dryRun: true }), app);
  assert.doesNotMatch(await metrics(), series);
  await answerTo(review(), app);
  assert.match(await metrics(), series);
});

test("the TLS port serves only reviews, and answers them while the process is ending", async () => {
  const { reporting } = createTestApp();
  const app = createAdmissionApp({
    ...quietServer,
    reporting,
    admissions: [validation],
    notReady: () => "this process is ending",
  });
  assert.equal((await answerTo(review(), app)).response.allowed, true);
  for (const other of ["/", "/events", "/metrics", "/readyz"]) {
    assert.equal((await app.request(other, { method: "POST" })).status, 404);
  }
});
