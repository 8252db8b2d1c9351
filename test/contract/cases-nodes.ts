/** Nodes, as far as they are objects: whoever cordons and fences writes them. */
import assert from "node:assert/strict";
import { rejection } from "../stage/rejection.ts";
import type { Case } from "./fixture.ts";

export const nodeCases: readonly Case[] = [
  {
    name: "a Node is of the whole cluster: it is cordoned and tainted by a patch, and its conditions are of its status alone",
    async run({ cluster, namespace }) {
      const name = `${namespace}-node`;
      const key = { namespace: "", name };
      const taint = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };
      const made = await cluster.create("nodes", "", { metadata: { name } });
      assert.equal(made.metadata.namespace, undefined);
      await cluster.patch("nodes", key, { spec: { unschedulable: true, taints: [taint] } });
      const conditions = [{ type: "Ready", status: "Unknown", lastTransitionTime: "2026-01-01T00:00:00Z" }];
      await cluster.patch("nodes", key, { status: { conditions } });
      const { spec, status } = await cluster.get("nodes", key);
      assert.equal(spec?.unschedulable, true);
      assert.ok(spec.taints?.some((one) => one.key === taint.key && one.effect === taint.effect));
      assert.deepEqual(status?.conditions ?? [], []);
      const written = await cluster.patch("nodes", key, { status: { conditions } }, { subresource: "status" });
      const [ready] = written.status?.conditions ?? [];
      assert.deepEqual(
        [ready?.type, ready?.status, ready?.lastTransitionTime],
        ["Ready", "Unknown", "2026-01-01T00:00:00Z"],
      );
      const uid = "00000000-0000-4000-8000-000000000000";
      assert.equal((await rejection(cluster.delete("nodes", key, { uid }))).code, 409);
      await cluster.delete("nodes", key, { uid: made.metadata.uid });
      assert.equal((await rejection(cluster.get("nodes", key))).code, 404);
    },
  },
];
