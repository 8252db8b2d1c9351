/** The functions that there are. Everything else about them is in their definitions. */
import { advanceZoneRollout } from "../functions/advance-zone-rollout/function.ts";
import { evaluateEviction } from "../functions/evaluate-eviction/function.ts";
import type { AdmissionDefinition, FunctionDefinition } from "../functions/shared/definition.ts";
import { validateZoneBudget } from "../functions/validate-zone-budget/function.ts";

/** Those that events and sweeps wake for a group. */
export const groupFunctions: readonly FunctionDefinition[] = [advanceZoneRollout];

/** Those that answer admission reviews. */
export const admissionFunctions: readonly AdmissionDefinition[] = [evaluateEviction, validateZoneBudget];

export const table: readonly (FunctionDefinition | AdmissionDefinition)[] = [...groupFunctions, ...admissionFunctions];
