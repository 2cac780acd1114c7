// The page is served below /ui/ by the API server and by `minik8s dashboard`. crates/ui embeds what
// scripts/compress.mjs makes of the result.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/ui/',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    outDir: '.build',
    emptyOutDir: true,
    // Inlined files would need exceptions from the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
