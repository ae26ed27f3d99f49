import { defineConfig } from '@adonisjs/core/http'

export const appKey = 'a key of a test, at least sixteen long'

export const http = defineConfig({})
