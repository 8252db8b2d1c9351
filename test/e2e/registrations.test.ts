/**
 * However a path of evaluate-eviction is registered, and however a client writes an Eviction, the real API server accepts the
 * answer.
 */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { evaluateEviction } from "../../functions/evaluate-eviction/function.ts";
import { guardEvictions, registerWebhook, removeWebhook, type WebhookKind } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";

const pinningPath = "/pods/eviction/pin";

/** The forms in which clients write an Eviction's type; older clients, and people, leave it out. */
const bodies = [{ apiVersion: "policy/v1", kind: "Eviction" }, { apiVersion: "policy/v1beta1", kind: "Eviction" }, {}];

async function post({ api, group: { namespace } }: Scene, name: string, head: object) {
  const answer = await api.send("POST", `/api/v1/namespaces/${namespace}/pods/${name}/eviction`, {
    ...head,
    metadata: { name, namespace },
  });
  return { code: answer.statusCode, text: await answer.body.text() };
}

/** The uids in the group's ledger. */
async function reserved({ api, ledgerPath }: Scene): Promise<string> {
  return JSON.stringify(await api.get(ledgerPath));
}

describe("a webhook for evictions on a real API server", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("every path works both as a mutating and as a validating one, with every form of an Eviction, except the pinning path", async () => {
    const options = { zones: 2, pods: 24, zoneBudget: { maxUnavailable: 24 } };
    await play(stage.controlPlane, "registered", options, async (scene) => {
      const { api, group } = scene;
      const server = await guardEvictions(scene, stage.certificate);
      await removeWebhook(api, group.namespace, "Mutating");
      const pods = Array.from({ length: 24 }, (_, ordinal) => `${group.statefulSets[0]}-${ordinal}`);
      const seen: string[] = [];
      for (const path of evaluateEviction.paths) {
        for (const kind of ["Mutating", "Validating"] as const satisfies readonly WebhookKind[]) {
          await registerWebhook(api, group.namespace, kind, { port: server.tlsPort, ca: stage.certificate.ca, path });
          for (const head of bodies) {
            const pod = pods.shift() ?? "";
            const { metadata } = await api.get<{ metadata: { uid: string } }>(
              `/api/v1/namespaces/${group.namespace}/pods/${pod}`,
            );
            const { code, text } = await post(scene, pod, head);
            if (path === pinningPath && kind === "Validating") {
              assert.equal(code, 500, text);
              assert.match(text, /may not provide|patch/i);
            } else {
              assert.equal(code, 201, `${path} ${kind} ${JSON.stringify(head)}: ${text}`);
            }
            assert.ok((await reserved(scene)).includes(metadata.uid), `${pod} is reserved`);
            seen.push(`${path} ${kind}`);
          }
          await removeWebhook(api, group.namespace, kind);
        }
      }
      assert.equal(seen.length, 18);
    });
  });
});
