/** The reasons by which rollout-operator's users know Sluice's answers, by guard. */
export const peerReasons = {
  allowed: "allowed",
  exempt: "pod-not-ready",
  "out-of-scope": "pod-not-in-scope",
  "invalid-request": "invalid-request",
  "namespace-not-served": "invalid-request",
  "pod-gone": "pod-not-found",
  "several-budgets": "cfg-not-found",
  "invalid-budget": "cfg-not-found",
  "budget-spans-groups": "cfg-not-found",
  "no-ordinal": "invalid-request",
  "no-statefulset": "sts-no-found",
  "max-unavailable-zero": "max-unavailable-0",
  "never-possible": "max-unavailable-0",
  "too-few-zones": "min-sts-not-found",
  "partition-not-identified": "partition-not-identified",
} as const;
