/** The functions that there are. Everything else about them is in their definitions. */
import { advanceZoneRollout } from "../functions/advance-zone-rollout/function.ts";
import type { FunctionDefinition } from "../functions/shared/definition.ts";

export const table: readonly FunctionDefinition[] = [advanceZoneRollout];
