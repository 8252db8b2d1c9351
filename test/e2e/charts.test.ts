/**
 * The labels and annotations of Mimir's, Loki's and Tempo's charts for rollout-operator, unchanged. The files have those labels
 * and annotations, on pods that do nothing.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { kubectl } from "./kubectl.ts";

interface Chart {
  readonly file: string;
  /** What is scaled: the object that says how many replicas there are to be. */
  readonly scaled: string;
  /** The StatefulSets that come to as many. */
  readonly followers: readonly string[];
  /** Whether the number of replicas is written to the status of what was scaled. */
  readonly isWrittenBack: boolean;
}

const zones = (name: string, ...letters: string[]) => letters.map((letter) => `${name}-zone-${letter}`);

const charts: readonly Chart[] = [
  {
    file: "mimir-ingest-storage",
    scaled: "replicatemplates.rollout-operator.grafana.com/ingester-zone-a",
    followers: zones("ingester", "a", "b", "c"),
    isWrittenBack: true,
  },
  {
    file: "mimir-classic",
    scaled: "replicatemplates.rollout-operator.grafana.com/ingester",
    followers: zones("ingester", "a", "b", "c"),
    isWrittenBack: true,
  },
  {
    file: "loki",
    scaled: "statefulset/ingester-zone-a",
    followers: zones("ingester", "a", "b", "c"),
    isWrittenBack: false,
  },
  {
    file: "tempo",
    scaled: "replicatemplates.rollout-operator.grafana.com/live-store",
    followers: zones("live-store", "a", "b"),
    isWrittenBack: true,
  },
];

interface Sized {
  readonly spec: { readonly replicas: number };
  readonly status?: { readonly replicas?: number };
}

describe("the labels and annotations of charts", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-charts" });
    await kubectl(controlPlane, ["apply", "-f", "knative/base/crds/replicatemplates.yaml"]);
    await kubectl(controlPlane, ["apply", "-f", "knative/base/crds/zoneawarepoddisruptionbudgets.yaml"]);
    await kubectl(controlPlane, ["wait", "--for=condition=established", "crd", "--all"]);
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
  });

  for (const { file, scaled, followers, isWrittenBack } of charts) {
    test(`${file}: none of its values is malformed, and its zones reach the requested size`, async () => {
      const namespace = `chart-${file}`;
      await kubectl(controlPlane, ["create", "namespace", namespace]);
      const manifest = await readFile(new URL(`../fixtures/charts/${file}.yaml`, import.meta.url), "utf8");
      await kubectl(controlPlane, ["apply", "-n", namespace, "-f", "-"], manifest);
      const server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace });
      try {
        await server.ready();
        await kubectl(controlPlane, ["scale", "-n", namespace, scaled, "--replicas=4"]);
        const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets`;
        for (const name of followers) {
          await eventually(`${name} with 4 replicas`, 30_000, async () => {
            const { spec } = await api.get<Sized>(`${path}/${name}`);
            return spec.replicas === 4 ? true : undefined;
          });
        }
        if (isWrittenBack) {
          const [type = "", name = ""] = scaled.split("/");
          const at = `/apis/${type.slice(type.indexOf(".") + 1)}/v1/namespaces/${namespace}/${type.split(".")[0]}/${name}`;
          await eventually(`the status of ${scaled}`, 30_000, async () => {
            const { status } = await api.get<Sized>(at);
            return status?.replicas === 4 ? true : undefined;
          });
        }
        const logged = server.log.filter(({ reason }) => reason === "malformed");
        assert.deepEqual(logged, []);
        const events = await kubectl(controlPlane, [
          "get",
          "events",
          "-n",
          namespace,
          "-o",
          "jsonpath={.items[*].reason}",
        ]);
        assert.doesNotMatch(events, /MalformedAnnotation|MisplacedKey/);
      } finally {
        await server.stop();
      }
    });
  }
});
