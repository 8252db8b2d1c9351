/** Pods that are asked before they go, on a real control plane, with real HTTP servers in place of RabbitMQ's. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { evaluateEviction } from "../../functions/evaluate-eviction/function.ts";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { changeTemplate, createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { evict, guardEvictions } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import type { Behaviour } from "../support/ingester.ts";
import { credentials, Rabbitmq } from "../support/rabbitmq.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import { createUser, grant } from "./rights.ts";

const secret = "rabbit-default-user";

/** The manifests of a user that let Sluice read one Secret. */
const ownRole = [{ group: "", resource: "secrets", verbs: ["get"] }];

async function addSecret(api: Api, namespace: string): Promise<void> {
  await api.send("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  const metadata = { name: secret };
  await api.post(`/api/v1/namespaces/${namespace}/secrets`, {
    apiVersion: "v1",
    kind: "Secret",
    metadata,
    stringData: credentials,
  });
}

/** Lets an account get the Secret by its name: the Role of the README. */
async function grantSecret(api: Api, namespace: string, name: string): Promise<void> {
  const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const metadata = { name: "sluice-asks-rabbit" };
  const rules = ownRole.map(({ group, resource, verbs }) => {
    return { apiGroups: [group], resources: [resource], resourceNames: [secret], verbs };
  });
  await api.post(`${path}/roles`, { apiVersion, kind: "Role", metadata, rules });
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name };
  const subjects = [{ kind: "ServiceAccount", namespace, name }];
  await api.post(`${path}/rolebindings`, { apiVersion, kind: "RoleBinding", metadata, roleRef, subjects });
}

describe("pods are asked before they go, on a real control plane", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;
  let api: Api;

  before(async () => {
    stage = await startEvictionStage();
    api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-questions" });
  });

  after(async () => {
    await api?.close();
    await stage?.stop();
  });

  /** A cluster of three nodes in a namespace, and a server that has the rights of its functions and of the user's Role. */
  async function playRabbitmq(
    namespace: string,
    work: (scene: Scene, rabbitmq: Rabbitmq) => Promise<void>,
  ): Promise<void> {
    const rabbitmq = await Rabbitmq.open({ nodes: 3, syncMs: 1_000 });
    const over = new AbortController();
    const followed = rabbitmq.pods.followPods(api, namespace, over.signal);
    try {
      await addSecret(api, namespace);
      const options = { zones: 1, pods: 3, annotations: rabbitmq.annotations(secret) };
      await play(stage.controlPlane, namespace, options, (scene) => work(scene, rabbitmq));
    } finally {
      over.abort();
      await followed.catch(() => undefined);
      await rabbitmq.pods.close();
    }
  }

  /** Requests an eviction until the answer is as expected, because a bad health answer may be some seconds old. */
  const evicted = (namespace: string, pod: string, expected: { readonly code: number; readonly message: RegExp }) =>
    eventually(`${pod} answered with ${expected.code} ${expected.message}`, 30_000, async () => {
      const answer = await evict(api, namespace, pod, "in the body");
      return answer.code === expected.code && expected.message.test(answer.message) ? answer : undefined;
    });

  test("a critical member stays, with a 429 that names its queues; without an answer the policy counts", async () => {
    await playRabbitmq("critical", async (scene, { pods, offline }) => {
      const kubeconfig = await createUser(stage.controlPlane, api, "critical", "sluice");
      const account = { namespace: "critical", name: "sluice" };
      await grant(api, "critical", account, evaluateEviction.needs);
      // A process that only reviews creates a ledger when it needs one; ahead of need another function does.
      await scene.serve({ FUNCTION: keepLedgers.name });
      await grantSecret(api, "critical", "sluice");
      const settings = { NODE_OPTIONS: pods.nodeOptions, FUNCTION: evaluateEviction.name };
      const server = await guardEvictions(scene, stage.certificate, { kubeconfig, settings });
      const name = "critical-zone-a-0";
      const path = `/api/v1/namespaces/critical/pods/${name}`;
      const uidOf = async () =>
        (await api.get<{ metadata: { uid: string; deletionTimestamp?: string } }>(path)).metadata;
      const { uid } = await uidOf();

      offline.add("critical-zone-a-2");
      await evicted("critical", name, { code: 429, message: /queue 'orders' in vhost '\/'/ });
      const answer = await evict(api, "critical", name);
      assert.deepEqual([answer.code, answer.causes], [429, ["DisruptionBudget"]]);
      assert.match(
        answer.message,
        /critical-zone-a-0 stays: asked about health, it says no: .*queue 'orders' in vhost '\/'/,
      );
      const event = await scene.waitForEvent("EvictionRefused");
      assert.match(event.message, /^health-bad: /);
      assert.ok((await server.metric("sluice_health_answers_total", { product: "rabbitmq", state: "bad" })) > 0);
      offline.clear();

      const behaviours: [Behaviour, RegExp][] = [
        ["crash", /it gives no answer: GET critical-zone-a-0/],
        ["rubbish", /HTTP 200, and no answer of RabbitMQ's: <html>/],
        ["huge", /the answer (has|is)|more than|longer/],
        [{ status: 500 }, /HTTP 500/],
        [{ status: 401 }, /HTTP 401/],
        [{ slowMs: 60_000 }, /did not answer within 4500 ms|no answer within/],
        [{ status: 302 }, /HTTP 302: the URL leads elsewhere/],
      ];
      for (const [behaviour, message] of behaviours) {
        pods.behave(name, behaviour);
        await evicted("critical", name, { code: 429, message });
      }
      const rolebinding = "/apis/rbac.authorization.k8s.io/v1/namespaces/critical/rolebindings/sluice-asks-rabbit";
      pods.behave(name, "answer");
      await api.delete(rolebinding);
      await evicted("critical", name, {
        code: 429,
        message: /Secret rabbit-default-user could not be read: .*a Role must give/,
      });
      assert.deepEqual([(await uidOf()).uid, (await uidOf()).deletionTimestamp], [uid, undefined]);

      pods.behave(name, "crash");
      const policy = { metadata: { annotations: { "sluice.dev/health-unknown": "go" } } };
      await api.send("PATCH", scene.statefulSetPath("critical-zone-a"), policy, "application/merge-patch+json");
      await eventually("the pod evicted", 30_000, async () =>
        (await evict(api, "critical", name)).code === 201 ? true : undefined,
      );
    });
  });

  test("under 32 evictions of three members at once, never two are down, and the queue keeps its majority", async () => {
    await playRabbitmq("storm", async (scene, { pods }) => {
      await guardEvictions(scene, stage.certificate, { settings: { NODE_OPTIONS: pods.nodeOptions } });
      const left = new Set([0, 1, 2].map((ordinal) => `storm-zone-a-${ordinal}`));
      const codes = new Map<number, number>();
      const startMs = Date.now();
      while (left.size > 0) {
        assert.ok(Date.now() - startMs < 90_000, `${[...left]} still there: ${JSON.stringify([...codes])}`);
        const asked = Array.from({ length: 32 }, (_, index) => `storm-zone-a-${index % 3}`).filter((pod) =>
          left.has(pod),
        );
        const answers = await Promise.all(asked.map(async (pod) => ({ pod, ...(await evict(api, "storm", pod)) })));
        for (const { pod, code } of answers) {
          codes.set(code, (codes.get(code) ?? 0) + 1);
          if (code === 201) left.delete(pod);
        }
        const allowed = new Set(answers.filter(({ code }) => code === 201).map(({ pod }) => pod));
        assert.ok(allowed.size <= 1, `${[...allowed]} were let go together`);
      }
      await waitForGroupReady(stage.controlPlane, scene.group);
      console.log(`a storm of three members: ${Date.now() - startMs} ms, answers ${JSON.stringify([...codes])}`);
    });
  });

  test("a rollout asks each member, and goes on when the previous one is in sync", async () => {
    await playRabbitmq("rolled", async (scene, { pods, offline }) => {
      const server = await scene.serve({ NODE_OPTIONS: pods.nodeOptions });
      await scene.waitForOldLedger(server);
      offline.add("rolled-zone-a-2");
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      const { sentence: text } = await scene.waitForGuard("health-bad");
      assert.match(text, /queue 'orders' in vhost '\/'/);
      assert.deepEqual(scene.observer.takings, []);
      offline.clear();
      await scene.waitForRollout("app:2");
    });
  });

  test("members that answer after 4 s do not delay another group", async () => {
    await playRabbitmq("slow", async (scene, { pods }) => {
      const quick = { name: "quick", namespace: "slow", zones: 2, pods: 3, maxUnavailable: 1 };
      const group = await createGroup(stage.controlPlane, { ...quick, annotations: annotationsOf(pods.port) });
      await waitForGroupReady(stage.controlPlane, group);
      await guardEvictions(scene, stage.certificate, { settings: { NODE_OPTIONS: pods.nodeOptions } });
      await evicted("slow", "quick-zone-a-0", { code: 201, message: /^/ });
      for (const ordinal of [0, 1, 2]) pods.behave(`slow-zone-a-${ordinal}`, { slowMs: 4_000 });
      // On connections of their own, because the measurement must not include a queue of the client.
      const others = await Api.open(stage.controlPlane, { userAgent: "sluice-test-slow", connections: 30 });
      scene.afterwards(() => others.close());
      const slow = Array.from({ length: 30 }, (_, index) =>
        evict(others, "slow", `slow-zone-a-${index % 3}`, "in the body"),
      );
      const took: number[] = [];
      for (let asked = 0; asked < 10; asked++) {
        const startMs = Date.now();
        const { code, message } = await evict(api, "slow", "quick-zone-a-0", "in the body");
        took.push(Date.now() - startMs);
        assert.equal(code, 201, message);
      }
      const answers = await Promise.all(slow);
      assert.ok(answers.every(({ code }) => code === 201 || code === 429));
      assert.ok(
        answers.some(({ code }) => code === 201),
        "an answer after 4 s counts",
      );
      console.log(`beside members that take 4 s another group was answered in ${Math.max(...took)} ms at most`);
      assert.ok(Math.max(...took) < 2_000, took.join());
    });
  });
});

function annotationsOf(port: number): Readonly<Record<string, string>> {
  const path = "/api/health/checks/node-is-quorum-critical";
  const url = `http://:${port}${path}`;
  return { "sluice.dev/health-question": "rabbitmq", "sluice.dev/health-url": url, "sluice.dev/health-secret": secret };
}
