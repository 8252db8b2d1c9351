import type { AdmissionDefinition } from "../shared/admission/definition.ts";
import { resources } from "../shared/kubernetes/resources.ts";
import { decide } from "./decide.ts";
import { guards } from "./guards.ts";
import { name, observe } from "./observe.ts";

const path = "/admission/zpdb-validation";

/** Refuses a ZoneAwarePodDisruptionBudget that could not be kept, with what to write instead. */
export const validateZoneBudget: AdmissionDefinition = {
  name,
  concern: "refuse a bad ZoneAwarePodDisruptionBudget",
  guards,
  needs: [],
  reads: [],
  writes: [],
  // The API server stores up to 1.5 MiB and takes up to 3: an update brings both, and who asks.
  bodyLimitBytes: 5 * 1024 * 1024,
  paths: [path],
  registration: {
    kind: "Validating",
    webhook: "zpdb-validation",
    path,
    rule: {
      apiGroups: [resources.zoneawarepoddisruptionbudgets.group],
      apiVersions: ["v1"],
      operations: ["CREATE", "UPDATE"],
      resources: ["zoneawarepoddisruptionbudgets"],
    },
    sideEffects: "None",
    failurePolicy: "Ignore",
    timeoutSeconds: 10,
  },
  whenBroken: "closed",
  // It decides by the object alone, so that a budget which no mode could keep is never stored.
  refusesInShadow: true,
  readsViews: false,
  open: () => ({ review: async (request) => decide(observe(request)) }),
};
