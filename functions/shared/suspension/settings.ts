/** The setting that both functions read which suspend volumes and remove them. */
import { setting } from "../base/settings.ts";

export const volumeHoldSetting = setting<"keep" | "remove">({
  name: "VOLUME_HOLD",
  fallback: "keep",
  meaning: "remove: no volume claim has our finalizer, and no volume is suspended or removed, as before an uninstall",
  grammar: "keep or remove",
  parse: (text) => (text === "keep" || text === "remove" ? text : undefined),
});
