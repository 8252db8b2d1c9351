/** The ReplicaTemplate of rollout-operator: StatefulSets mirror its size, and no controller writes its status. */
import { type KindDefinition, typeOf } from "./objects.ts";

export const replicaTemplate: KindDefinition = {
  group: "rollout-operator.grafana.com",
  version: "v1",
  kind: "ReplicaTemplate",
  plural: "replicatemplates",
  isNamespaced: true,
  hasScale: true,
};

/** The type of its objects, in each fake cluster that defines it. */
export const replicaTemplates = typeOf(replicaTemplate);
