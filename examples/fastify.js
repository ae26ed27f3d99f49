// A backend with Fastify that serves only callers with an identity from the gateway.
import Fastify from 'fastify'
import { createVerifier, may } from 'sallyport/verify'

const verify = createVerifier({
  jwksUrl: process.env.SALLYPORT_JWKS ?? 'http://127.0.0.1:9090/.well-known/jwks.json',
  audience: 'platform',
})

const app = Fastify()

app.decorateRequest('identity', null)
app.addHook('onRequest', async (request, reply) => {
  try {
    request.identity = await verify(request)
  } catch (error) {
    // 401: the request did not come through the gateway. 503: no keys could be fetched.
    return reply.code(error.status).send()
  }
})

app.get('/datasets', async (request) => {
  const { user, organization } = request.identity
  return { user, organization, mayWrite: may(request.identity, 'datasets:write') }
})

console.log(await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' }))
