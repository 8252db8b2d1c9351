/**
 * Only API servers know the key: the cost of other clients' reviews, and that no eviction is lost while the key comes and goes.
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Pool } from "undici";
import { evaluateEviction } from "../../functions/evaluate-eviction/function.ts";
import { withKey } from "../../functions/shared/certificates/review-key.ts";
import { placeholderNamespace, reviewService } from "../../knative/render/object.ts";
import { webhookConfiguration } from "../../knative/render/webhooks.ts";
import { admissionFunctions } from "../../triggers/table.ts";
import { eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { runKubectl } from "../support/drain.ts";
import { evict } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { parseAnswer, reviewOf } from "../support/review.ts";
import { type Asked, play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { writeBack } from "../support/written-back.ts";
import { askUnproven } from "./unproven-clients.ts";

/** `REVIEWS=10000` sends 10,000: a hundred connections get a hundred answers a second. */
const times = Number(process.env.REVIEWS ?? 2_000);
const path = "/pods/eviction/pin";
const paths = admissionFunctions.flatMap((definition) => definition.paths);
const webhooksPath = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const secretName = "rollout-operator-self-signed-certificate";
/** The Secret is read again and again; functions read claims, and types that are not installed. No review does. */
const isRegular = ({ verb, resource, code }: Asked) =>
  (verb === "get" && resource === "secrets") || (verb === "list" && (resource === "leases" || code === 404));

/** `GITOPS_SECONDS=120` goes on for longer. */
const gitOpsSeconds = Number(process.env.GITOPS_SECONDS ?? 20);

/** Applies our manifest of evictions as a user does. Its Service stands for `localhost`. */
async function manifestOf({ api, controlPlane, group: { namespace } }: Scene, server: Server) {
  const text = JSON.stringify(webhookConfiguration(evaluateEviction)).replaceAll(placeholderNamespace, namespace);
  const manifest = JSON.parse(text.replace('"port":443', `"port":${server.tlsPort}`));
  const spec = { type: "ExternalName", externalName: "localhost" };
  const service = { apiVersion: "v1", kind: "Service", metadata: { name: reviewService }, spec };
  await api.post(`/api/v1/namespaces/${namespace}/services`, service);
  const file = join(controlPlane.directory, `${namespace}.json`);
  await writeFile(file, JSON.stringify(manifest));
  return async () => {
    const { code, stderr } = await runKubectl(controlPlane, "apply", "-f", file);
    if (code !== 0) throw new Error(`kubectl apply: ${stderr}`);
  };
}

interface Guarded {
  readonly server: Server;
  readonly key: string;
  readonly ca: string;
}

async function guard(scene: Scene): Promise<Guarded> {
  const { api, group } = scene;
  const { namespace } = group;
  // Otherwise the pods of rollout-operator would be listed every 30 s, whether reviews come or not.
  const server = await scene.serve({ TLS_PORT: "0", TLS_DNS_NAME: "localhost", OTHER_OPERATOR: "ignore" });
  await server.ready();
  const { data } = await eventually("the key in the Secret", 30_000, async () => {
    const secret = await api.get<{ data?: Readonly<Record<string, string>> }>(
      `/api/v1/namespaces/${namespace}/secrets/${secretName}`,
    );
    return secret.data?.["review-key"] === undefined ? undefined : { data: secret.data };
  });
  const key = Buffer.from(data["review-key"] ?? "", "base64").toString("hex");
  const name = `pod-eviction-${namespace}`;
  const webhooks = [
    {
      name: `${name}.grafana.com`,
      clientConfig: {
        url: `https://localhost:${server.tlsPort}${withKey(path, key)}`,
        caBundle: data.ca,
      },
      rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] }],
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
      admissionReviewVersions: ["v1"],
      sideEffects: "NoneOnDryRun",
    },
  ];
  const type = { apiVersion: "admissionregistration.k8s.io/v1", kind: "MutatingWebhookConfiguration" };
  await api.post(webhooksPath, { ...type, metadata: { name }, webhooks });
  scene.afterwards(async () => void (await api.delete(`${webhooksPath}/${name}`)));
  const isAsked = async () => ((await server.metric("sluice_review_key_asked", { path })) === 1 ? true : undefined);
  await eventually("the key asked for", 30_000, isAsked);
  const rehearse = () => evict(api, namespace, `${group.statefulSets[0]}-0`, "in the body");
  await eventually("an eviction allowed", 60_000, async () => ((await rehearse()).code === 201 ? true : undefined));
  return { server, key, ca: Buffer.from(data.ca ?? "", "base64").toString("utf8") };
}

/** Sends reviews as an API server does, over two kept connections, until it is stopped. Resolves to the time of each. */
function askAsApiServer({ server, key, ca }: Guarded, pod: { namespace: string; name: string }) {
  const connect = { ca, servername: "localhost" };
  const options = { connections: 2, pipelining: 1, allowH2: false, connect };
  const pool = new Pool(`https://127.0.0.1:${server.tlsPort}`, options);
  const tookMs: number[] = [];
  const refused: string[] = [];
  let isAsking = true;
  const one = async (): Promise<void> => {
    for (; isAsking; await delay(20)) {
      const startedMs = performance.now();
      const uid = randomUUID();
      const headers = { "content-type": "application/json" };
      const body = reviewOf(pod, uid, true);
      const text = await pool
        .request({ method: "POST", path: withKey(path, key), headers, body })
        .then((answer) => answer.body.text())
        .catch((error: Error) => error.message);
      tookMs.push(performance.now() - startedMs);
      if (!text.includes(`"${uid}"`) || !parseAnswer(text).allowed) refused.push(text);
    }
  };
  const asking = Promise.all([one(), one()]);
  return async () => {
    isAsking = false;
    await asking;
    await pool.destroy();
    const [medianMs = 0] = tookMs.toSorted((a, b) => a - b).slice(Math.floor(tookMs.length / 2));
    return { asked: tookMs.length, medianMs, refused };
  };
}

describe("the key of API servers on a real API server", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  const options = { zones: 2, pods: 4, zoneBudget: { maxUnavailable: 4 } };

  test("reviews without the key, of every path and any pod, get one answer and cost nothing; honest ones go on beside them", async () => {
    await play(stage.controlPlane, "unproven", options, async (scene) => {
      const guarded = await guard(scene);
      const { namespace, statefulSets } = scene.group;
      const pod = { namespace, name: `${statefulSets[0]}-0` };
      const pods = [pod, { namespace, name: "nothing-0" }, { namespace: "nowhere", name: "nothing-0" }];
      const wrong = "0".repeat(64);
      const all = [...paths, ...paths.map((one) => withKey(one, wrong)), "/nothing", `/${guarded.key}`];
      const requests = all.flatMap((one) =>
        pods.map((target) => ({ path: one, body: reviewOf(target, randomUUID(), false) })),
      );
      const { tlsPort: port } = guarded.server;
      const { ca } = guarded;
      const ledger = await scene.api.get(scene.ledgerPath);
      const from = await auditPosition(stage.controlPlane.auditLog);
      const answers = await askUnproven({ port, ca, requests, times });
      const cost = (await scene.requests(from)).filter((one) => !isRegular(one));
      assert.deepEqual(cost, []);
      assert.deepEqual(await scene.api.get(scene.ledgerPath), ledger);
      assert.deepEqual(await scene.events("EvictionAllowed"), []);
      const [[outcome = "", count = 0] = [], ...others] = Object.entries(answers);
      assert.deepEqual(others, []);
      assert.match(outcome, /^401 .*Show the key of API servers/);
      assert.equal(count, times);

      // In turns, so that other work on the machine slows both down alike.
      const rounds: { readonly aloneMs: number; readonly besideMs: number }[] = [];
      for (let round = 0; round < 5; round++) {
        const alone = askAsApiServer(guarded, pod);
        await delay(1_500);
        const { medianMs: aloneMs } = await alone();
        const beside = askAsApiServer(guarded, pod);
        await askUnproven({ port, ca, requests, times: times / 5 });
        const { medianMs: besideMs, refused } = await beside();
        assert.deepEqual(refused, []);
        rounds.push({ aloneMs, besideMs });
      }
      const ratios = rounds.map(({ aloneMs, besideMs }) => besideMs / Math.max(aloneMs, 2)).toSorted((a, b) => a - b);
      const each = rounds.map(({ aloneMs, besideMs }) => `${besideMs.toFixed(1)} and ${aloneMs.toFixed(1)} ms`);
      const figures = `${times} reviews of unproven clients: honest median beside them and alone ${each.join(", ")}`;
      console.log(figures);
      assert.ok((ratios[2] ?? Number.NaN) <= 3, figures);
    });
  });

  test("a tool that applies the plain manifest every 10 s costs no eviction, and the key is required again within 15 s after it", async () => {
    const options = { zones: 2, pods: 12, nodesPerZone: 2, readyAfterMs: 500, zoneBudget: { maxUnavailable: 1 } };
    await play(stage.controlPlane, "written-back", options, async (scene) => {
      const server = await scene.serve({ TLS_PORT: "0" });
      await server.ready();
      const apply = await manifestOf(scene, server);
      await apply();
      const isAsked = async () => (await server.metric("sluice_review_key_asked", { path })) === 1;
      const { asked, refused, gaveUp, plain, seconds } = await writeBack(scene, {
        seconds: gitOpsSeconds,
        apply,
        isAsked,
      });
      console.log(
        `${gitOpsSeconds} s of applying: ${asked} reviews and a drain, ${refused.length} refused; the key is asked for ${seconds.toFixed(1)} s after the last`,
      );
      assert.deepEqual([refused.slice(0, 3), gaveUp], [[], 0]);
      assert.ok(asked > 100 && plain > 0, `${asked} ${plain}`);
      assert.ok(seconds <= 15, `${seconds} s`);
    });
  });
});
