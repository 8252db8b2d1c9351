/** Webhooks that see, change and refuse evictions, and what happens when they fail. For clusters that speak HTTP. */
import assert from "node:assert/strict";
import { eventually } from "./fixture.ts";
import { type Review, WebhookServer } from "./webhook-server.ts";
import {
  type EvictionCase,
  isUntouched,
  mutating,
  otherUid,
  patching,
  pinning,
  terminates,
  validating,
  withWebhooks,
  wrongUid,
} from "./with-webhooks.ts";

const reviews: readonly EvictionCase[] = [
  withWebhooks(
    "an eviction is shown to webhooks as a review of v1, with their timeout in the query",
    async (fixture, webhooks) => {
      await webhooks.register(fixture, mutating, "first", { timeoutSeconds: 7 });
      await webhooks.register(fixture, validating, "second");
      await webhooks.known(fixture, "first", "second");
      const answer = await fixture.evict("pod");
      assert.deepEqual(
        [answer.code, answer.status],
        [201, { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 }],
      );
      await terminates(fixture);
      const [first, second, ...more] = webhooks.take();
      assert.deepEqual([first?.url, second?.url, more], ["/first?timeout=7s", "/second?timeout=10s", []]);
      for (const review of [first, second]) {
        const { uid, userInfo, ...request } = (review as Review).request;
        assert.equal(review?.apiVersion, "admission.k8s.io/v1");
        assert.match(uid, /^[0-9a-f-]{36}$/);
        assert.equal(typeof (userInfo as { username: string }).username, "string");
        assert.deepEqual(request, {
          kind: { group: "policy", version: "v1", kind: "Eviction" },
          resource: { group: "", version: "v1", resource: "pods" },
          subResource: "eviction",
          requestKind: { group: "policy", version: "v1", kind: "Eviction" },
          requestResource: { group: "", version: "v1", resource: "pods" },
          requestSubResource: "eviction",
          name: "pod",
          namespace: fixture.namespace,
          operation: "CREATE",
          object: {
            kind: "Eviction",
            apiVersion: "policy/v1",
            metadata: { name: "pod", namespace: fixture.namespace },
          },
          oldObject: null,
          dryRun: false,
          options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1" },
        });
      }
      assert.notEqual(first?.request.uid, second?.request.uid);
    },
  ),
  withWebhooks(
    "mutating webhooks are asked first, by the names of their configurations; after a refusal no other is asked",
    async (fixture, webhooks) => {
      await webhooks.register(fixture, validating, "aa");
      await webhooks.register(fixture, mutating, "cc");
      await webhooks.register(fixture, mutating, "bb");
      await webhooks.register(fixture, validating, "dd");
      await webhooks.known(fixture, "aa", "bb", "cc", "dd");
      webhooks.answer = ({ url }) => ({ allowed: !url.startsWith("/aa") });
      assert.equal((await fixture.evict("pod")).code, 400);
      const asked = webhooks.take().map(({ url }) => url.slice(1, 3));
      assert.deepEqual(asked.slice(0, 2), ["bb", "cc"]);
      // They are asked at the same time, so that a refusal does not keep the other from being asked.
      assert.deepEqual(asked.slice(2).toSorted(), ["aa", "dd"]);
      webhooks.answer = ({ url }) => ({ allowed: !url.startsWith("/bb") });
      assert.equal((await fixture.evict("pod")).code, 400);
      assert.deepEqual(
        webhooks.take().map(({ url }) => url.slice(1, 3)),
        ["bb"],
      );
    },
  ),
  withWebhooks("webhooks of other namespaces, operations and resources are not asked", async (fixture, webhooks) => {
    const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] };
    const elsewhere = { matchLabels: { "kubernetes.io/metadata.name": fixture.otherNamespace } };
    const here = {
      matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values: [fixture.namespace] }],
    };
    await webhooks.register(fixture, validating, "elsewhere", { namespaceSelector: elsewhere });
    await webhooks.register(fixture, validating, "update", { rules: [{ ...rule, operations: ["UPDATE"] }] });
    await webhooks.register(fixture, validating, "pods", { rules: [{ ...rule, resources: ["pods"] }] });
    await webhooks.register(fixture, validating, "policy", { rules: [{ ...rule, apiGroups: ["policy"] }] });
    const all = [{ ...rule, apiGroups: ["*"], operations: ["*"], resources: ["pods/*"] }];
    // Registered last, so that the API server knows the others when it knows this one.
    await webhooks.register(fixture, validating, "all", { rules: all, namespaceSelector: here });
    await webhooks.known(fixture, "all");
    assert.equal((await fixture.evict("pod")).code, 201);
    assert.deepEqual(
      webhooks.take().map(({ url }) => url),
      ["/all?timeout=10s"],
    );
  }),
  withWebhooks(
    "an eviction of a missing pod is reviewed and then 404; one with another name is 400",
    async (fixture, webhooks, pod) => {
      await webhooks.register(fixture, mutating, "first");
      await webhooks.known(fixture, "first");
      const gone = await fixture.evict("absent");
      assert.deepEqual([gone.code, gone.status.message], [404, 'pods "absent" not found']);
      assert.equal(webhooks.take().length, 1);
      for (const metadata of [{ name: "absent" }, {}]) {
        const { code, status } = await fixture.evict("pod", { metadata });
        assert.deepEqual([code, status.message], [400, "name in URL does not match name in Eviction object"]);
      }
      const { code } = await fixture.evict("pod", { metadata: { name: "pod", namespace: fixture.otherNamespace } });
      assert.equal(code, 400);
      assert.equal((await fixture.evict("pod", { kind: "Pod" })).code, 400);
      await isUntouched(fixture, pod);
    },
  ),
];

const refusals: readonly EvictionCase[] = [
  withWebhooks(
    "a refusal is passed on with its code, reason, causes and Retry-After, and the pod stays",
    async (fixture, webhooks, pod) => {
      await webhooks.register(fixture, mutating, "first");
      await webhooks.register(fixture, validating, "second");
      await webhooks.known(fixture, "first", "second");
      for (const name of ["first", "second"]) {
        const causes = [{ reason: "DisruptionBudget", message: "1 pod not ready in set" }];
        const status = { code: 429, reason: "TooManyRequests", message: "1 pod not ready in set" };
        const denial = { allowed: false, status: { ...status, details: { causes, retryAfterSeconds: 2 } } };
        webhooks.answer = ({ url }) => (url.startsWith(`/${name}`) ? denial : { allowed: true });
        const answer = await fixture.evict("pod");
        assert.deepEqual([answer.code, answer.status.reason, answer.retryAfter], [429, "TooManyRequests", "2"]);
        const denied = `admission webhook "${name}.contract.sluice.dev" denied the request`;
        assert.equal(answer.status.message, `${denied}: 1 pod not ready in set`);
        assert.deepEqual(answer.status.details, { causes, retryAfterSeconds: 2 });
      }
      await isUntouched(fixture, pod);
    },
  ),
  withWebhooks("a refusal without a status is 400, and never a success", async (fixture, webhooks) => {
    const name = await webhooks.register(fixture, mutating, "first");
    await webhooks.known(fixture, "first");
    const denied = `admission webhook "${name}" denied the request`;
    for (const [status, code, message] of [
      [undefined, 400, `${denied} without explanation`],
      [{ code: 200, reason: "Whim" }, 400, `${denied}: Whim`],
      [{ code: 403, message: "no" }, 403, `${denied}: no`],
    ] as const) {
      webhooks.answer = () => ({ allowed: false, ...(status && { status }) });
      const answer = await fixture.evict("pod");
      assert.deepEqual([answer.code, answer.status.status, answer.status.message], [code, "Failure", message]);
    }
  }),
];

const patches: readonly EvictionCase[] = [
  withWebhooks(
    "R11: a uid that a webhook pins is a precondition, in addition to the client's own options",
    async (fixture, webhooks, pod) => {
      await webhooks.register(fixture, mutating, "first");
      await webhooks.register(fixture, validating, "second");
      await webhooks.known(fixture, "first", "second");
      webhooks.answer = (review) => (review.url.startsWith("/first") ? pinning(review, otherUid) : { allowed: true });
      for (const deleteOptions of [
        undefined,
        { gracePeriodSeconds: 20 },
        { preconditions: { resourceVersion: "1" } },
      ]) {
        const { code, status } = await fixture.evict("pod", deleteOptions && { deleteOptions });
        assert.deepEqual([code, status.reason, status.message], [409, "Conflict", wrongUid(pod)]);
        const [, second] = webhooks.take();
        const preconditions = { ...deleteOptions?.preconditions, uid: otherUid };
        assert.deepEqual(second?.request.object.deleteOptions, { ...deleteOptions, preconditions });
      }
      await isUntouched(fixture, pod);
      webhooks.answer = (review) =>
        review.url.startsWith("/first") ? pinning(review, pod.metadata.uid) : { allowed: true };
      assert.equal((await fixture.evict("pod")).code, 201);
      await terminates(fixture);
    },
  ),
  withWebhooks(
    "a later webhook sees the changes of an earlier one, and may replace them",
    async (fixture, webhooks, pod) => {
      await webhooks.register(fixture, mutating, "first");
      await webhooks.register(fixture, mutating, "second");
      await webhooks.known(fixture, "first", "second");
      const path = "/deleteOptions/preconditions/uid";
      webhooks.answer = (review) =>
        review.url.startsWith("/first")
          ? pinning(review, otherUid)
          : patching([{ op: "replace", path, value: pod.metadata.uid }]);
      assert.equal((await fixture.evict("pod")).code, 201);
      const preconditions = webhooks.take()[1]?.request.object.deleteOptions?.preconditions;
      assert.deepEqual(preconditions, { uid: otherUid });
      await terminates(fixture);
    },
  ),
  withWebhooks("a patch that does not apply is 500, whatever the failurePolicy", async (fixture, webhooks, pod) => {
    await webhooks.register(fixture, mutating, "first", { failurePolicy: "Ignore" });
    await webhooks.known(fixture, "first");
    const path = "/deleteOptions/preconditions/uid";
    webhooks.answer = () => patching([{ op: "add", path, value: pod.metadata.uid }]);
    const { code, status } = await fixture.evict("pod");
    const why = `add operation does not apply: doc is missing path: "${path}": missing value`;
    assert.deepEqual([code, status.reason], [500, "InternalError"]);
    assert.equal(status.message, `Internal error occurred: ${why}`);
    await isUntouched(fixture, pod);
  }),
];

const failures: readonly EvictionCase[] = [
  withWebhooks(
    "a failing webhook causes a 500 with its name, or, with Ignore, counts as absent",
    async (fixture, webhooks, pod) => {
      const closed = await webhooks.register(fixture, mutating, "closed");
      await webhooks.register(fixture, mutating, "open", { failurePolicy: "Ignore" });
      await webhooks.register(fixture, validating, "later", { failurePolicy: "Ignore" });
      await webhooks.known(fixture, "closed", "open", "later");
      const failing = (failed: string): void => {
        webhooks.answer = ({ url }) => (url.startsWith(`/${failed}`) ? "broken" : { allowed: true });
      };
      failing("closed");
      const answer = await fixture.evict("pod");
      const why = `failed calling webhook "${closed}": failed to call webhook: an error on the server ("broken") has prevented the request from succeeding`;
      assert.deepEqual([answer.code, answer.status.reason], [500, "InternalError"]);
      assert.equal(answer.status.message, `Internal error occurred: ${why}`);
      assert.deepEqual(answer.status.details, { causes: [{ message: why }] });
      await isUntouched(fixture, pod);
      for (const failed of ["open", "later"]) {
        failing(failed);
        assert.equal((await fixture.evict("pod", {}, "dryRun=All")).code, 201);
      }
      webhooks.answer = ({ url }) => ({ allowed: !url.startsWith("/open"), status: { code: 429 } });
      // It answers, so Ignore does not apply.
      assert.equal((await fixture.evict("pod")).code, 429);
      failing("open");
      assert.equal((await fixture.evict("pod")).code, 201);
      await terminates(fixture);
    },
  ),
  withWebhooks("an answer that breaks a rule counts as a failure", async (fixture, webhooks, pod) => {
    const name = await webhooks.register(fixture, validating, "first");
    await webhooks.known(fixture, "first");
    const patch = patching([]);
    for (const [answer, why] of [
      [patch, "validating webhook may not return response.patch"],
      [{ allowed: true, patchType: "JSONPatch" }, "validating webhook may not return response.patchType"],
      [{ allowed: true, uid: "other" }, /^expected response\.uid="[0-9a-f-]+", got "other"$/],
    ] as const) {
      webhooks.answer = () => answer;
      const { code, status } = await fixture.evict("pod");
      const prefix = `Internal error occurred: failed calling webhook "${name}": received invalid webhook response: `;
      assert.deepEqual([code, status.message?.startsWith(prefix)], [500, true], status.message);
      const rest = status.message?.slice(prefix.length) ?? "";
      if (typeof why === "string") assert.equal(rest, why);
      else assert.match(rest, why);
    }
    await isUntouched(fixture, pod);
  }),
  withWebhooks("a webhook has the timeout of its registration", async (fixture, webhooks, pod) => {
    const name = await webhooks.register(fixture, mutating, "first", { timeoutSeconds: 1 });
    await webhooks.known(fixture, "first");
    webhooks.answer = () => "never";
    const startMs = performance.now();
    const { code, status } = await fixture.evict("pod");
    const tookMs = performance.now() - startMs;
    const url = `${webhooks.urlOf("first")}?timeout=1s`;
    const why = `failed calling webhook "${name}": failed to call webhook: Post "${url}": context deadline exceeded`;
    assert.deepEqual([code, status.message], [500, `Internal error occurred: ${why}`]);
    assert.ok(tookMs > 900 && tookMs < 5_000, `${tookMs} ms`);
    await isUntouched(fixture, pod);
  }),
  withWebhooks(
    "a webhook is asked only if its caBundle, which may have two authorities, trusts its certificate",
    async (fixture, webhooks, pod) => {
      const other = await WebhookServer.start();
      try {
        await webhooks.register(fixture, mutating, "first");
        await webhooks.known(fixture, "first");
        const key = { namespace: "", name: `first-${fixture.namespace}` };
        const { webhooks: [webhook] = [] } = await fixture.cluster.get(mutating, key);
        const trust = (caBundle: string) => {
          const clientConfig = { url: other.urlOf("first"), caBundle };
          return fixture.cluster.patch(mutating, key, { webhooks: [{ ...webhook, clientConfig }] });
        };
        await trust(webhooks.caBundle);
        const { status } = await eventually(
          "an eviction that fails",
          () => fixture.evict("pod", {}, "dryRun=All"),
          ({ code }) => code === 500,
        );
        assert.match(status.message ?? "", /failed to call webhook: Post "https:.+\?timeout=10s": .*certificate/);
        assert.deepEqual(other.take(), []);
        const both = [webhooks.caBundle, other.caBundle].map((bundle) => Buffer.from(bundle, "base64").toString());
        await trust(Buffer.from(both.join("\n")).toString("base64"));
        await other.known(fixture, "first");
        await isUntouched(fixture, pod);
      } finally {
        await other.close();
      }
    },
  ),
  withWebhooks("a webhook that has gone causes a 500 with its address", async (fixture, webhooks, pod) => {
    const name = await webhooks.register(fixture, mutating, "first");
    await webhooks.known(fixture, "first");
    const url = webhooks.urlOf("first");
    await webhooks.close();
    const { code, status } = await fixture.evict("pod");
    assert.deepEqual([code, status.reason], [500, "InternalError"]);
    const why = `failed calling webhook "${name}": failed to call webhook: Post "${url}?timeout=10s": `;
    assert.ok(status.message?.startsWith(`Internal error occurred: ${why}`), status.message);
    await isUntouched(fixture, pod);
  }),
];

export const webhookCases: readonly EvictionCase[] = [...reviews, ...refusals, ...patches, ...failures];
