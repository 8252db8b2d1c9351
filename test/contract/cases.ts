/** Every case that the real and the fake clusters must pass. */
import { claimCases } from "./cases-claims.ts";
import { configurationCases } from "./cases-configuration.ts";
import { discoveryCases } from "./cases-discovery.ts";
import { eventCases } from "./cases-events.ts";
import { namespaceCases } from "./cases-namespaces.ts";
import { nodeCases } from "./cases-nodes.ts";
import { ownerCases } from "./cases-owners.ts";
import { readCases } from "./cases-reads.ts";
import { resourceCases } from "./cases-resources.ts";
import { scaleCases } from "./cases-scale.ts";
import { serviceCases } from "./cases-services.ts";
import { updateCases } from "./cases-updates.ts";
import { volumeCases } from "./cases-volumes.ts";
import { watchCases } from "./cases-watches.ts";
import { workloadCases } from "./cases-workloads.ts";
import { writeCases } from "./cases-writes.ts";
import type { Case } from "./fixture.ts";

export const cases: readonly Case[] = [
  ...writeCases,
  ...readCases,
  ...watchCases,
  ...workloadCases,
  ...configurationCases,
  ...scaleCases,
  ...resourceCases,
  ...serviceCases,
  ...ownerCases,
  ...claimCases,
  ...namespaceCases,
  ...nodeCases,
  ...discoveryCases,
  ...updateCases,
  ...volumeCases,
  ...eventCases,
];
