// The sign-in of the stand-in: what is pasted is the key, and what `wrong` is pasted fails.
import { appendFileSync, readFileSync } from "node:fs";

const key = () => readFileSync(new URL("key", import.meta.url), "utf8").trim();
const far = () => Date.now() + 3_600_000;

const provider = {
  async login(callbacks) {
    callbacks.onAuth({ url: "https://provider.test/sign-in?x=1", instructions: "Your code is 1234" });
    const text = await callbacks.onManualCodeInput();
    if (text.includes("wrong")) throw new Error("State mismatch");
    return { refresh: "again", access: key(), expires: text.includes("old") ? 0 : far() };
  },
  async refreshToken(credentials) {
    appendFileSync(new URL("refreshed", import.meta.url), "x");
    if (credentials.refresh === "revoked") throw new Error("token refresh failed (400): invalid_grant");
    return { ...credentials, access: key(), expires: far() };
  },
  getApiKey: (credentials) => credentials.access,
};

export const getOAuthProvider = () => provider;
